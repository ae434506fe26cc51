// Kubeflow's Spark operator (SparkApplication) on an address that it is told. The operator's own
// webhooks listen on all addresses, in a second program, with a certificate that it has made itself
// for a Service. Controller, webhooks and their settings are those of these two; the kinds that make
// SparkApplications, and SparkConnect, are left out. The path of this module lets it take what is
// internal to the operator.
package main

import (
	"net/url"
	"os"
	"time"

	"fedq.io/rig/operators/start"
	"github.com/kubeflow/spark-operator/v2/api/v1beta2"
	"github.com/kubeflow/spark-operator/v2/internal/controller/sparkapplication"
	sparkwebhook "github.com/kubeflow/spark-operator/v2/internal/webhook"
	"github.com/kubeflow/spark-operator/v2/pkg/common"
	operatorscheme "github.com/kubeflow/spark-operator/v2/pkg/scheme"
	"github.com/kubeflow/spark-operator/v2/pkg/util"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

func main() {
	start.Main(managerOn)
}

func managerOn(cluster *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	if err := tellSparkSubmit(cluster); err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, err
	}
	if err := util.InitializeIngressCapabilities(clientset); err != nil {
		return nil, err
	}
	options.Scheme = operatorscheme.ControllerScheme
	options.Cache = cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:       labelled(common.LabelLaunchedBySparkOperator),
		&corev1.ConfigMap{}: labelled(common.LabelCreatedBySparkOperator),
	}}
	manager, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return nil, err
	}
	if err := addController(manager); err != nil {
		return nil, err
	}
	if err := addWebhooks(manager); err != nil {
		return nil, err
	}
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, err
	}
	return manager, manager.AddReadyzCheck("readyz", manager.GetWebhookServer().StartedChecker())
}

// tellSparkSubmit says where the API server is, as the environment of every pod does.
func tellSparkSubmit(cluster *rest.Config) error {
	server, err := url.Parse(cluster.Host)
	if err != nil {
		return err
	}
	if err := os.Setenv(common.EnvKubernetesServiceHost, server.Hostname()); err != nil {
		return err
	}
	return os.Setenv(common.EnvKubernetesServicePort, server.Port())
}

func labelled(key string) cache.ByObject {
	return cache.ByObject{Label: labels.SelectorFromSet(labels.Set{key: "true"})}
}

func addController(manager ctrl.Manager) error {
	return sparkapplication.NewReconciler(
		manager, manager.GetScheme(), manager.GetClient(),
		manager.GetEventRecorderFor("spark-application-controller"),
		nil, &sparkapplication.SparkSubmitter{},
		sparkapplication.Options{
			EnableUIService:              true,
			DriverPodCreationGracePeriod: 10 * time.Second,
			MaxTrackedExecutorPerApp:     1000,
		},
	).SetupWithManager(manager, controller.Options{
		MaxConcurrentReconciles: 10,
		CacheSyncTimeout:        30 * time.Second,
		RateLimiter:             util.NewRateLimiter[ctrl.Request](10, 100, rate.InfDuration),
	})
}

func addWebhooks(manager ctrl.Manager) error {
	if err := ctrl.NewWebhookManagedBy(manager).
		For(&v1beta2.SparkApplication{}).
		WithDefaulter(sparkwebhook.NewSparkApplicationDefaulter()).
		WithValidator(sparkwebhook.NewSparkApplicationValidator(manager.GetClient(), false)).
		WithLogConstructor(sparkwebhook.LogConstructor).
		Complete(); err != nil {
		return err
	}
	return ctrl.NewWebhookManagedBy(manager).
		For(&corev1.Pod{}).
		WithDefaulter(sparkwebhook.NewSparkPodDefaulter(manager.GetClient(), nil)).
		WithLogConstructor(sparkwebhook.LogConstructor).
		Complete()
}
