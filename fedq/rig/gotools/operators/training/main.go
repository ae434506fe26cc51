// Kubeflow's training operator (PyTorchJob, TFJob and their like) on an address that it is told.
// The operator's own entry point listens on all addresses, and only with a certificate that it has
// made itself for a Service. Controllers, webhooks and their settings are those of that one; MPIJobs
// are left out, as where the operator of the newer kind runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	trainingv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	host := flag.String("host", "127.0.0.1", "Address on which it listens.")
	health := flag.Int("health-port", 8081, "Port of /healthz and /readyz.")
	port := flag.Int("webhook-port", 9443, "Port of the webhooks.")
	certificates := flag.String("cert-dir", "", "Folder with tls.crt and tls.key of the webhooks.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	manager, err := managerOn(*host, *health, *port, *certificates)
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func managerOn(host string, health, port int, certificates string) (ctrl.Manager, error) {
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, trainingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	cluster.QPS, cluster.Burst = 20, 30
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: fmt.Sprintf("%s:%d", host, health),
		WebhookServer:          webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: certificates}),
	})
	if err != nil {
		return nil, err
	}
	for kind, setUp := range controllers.SupportedSchemeReconciler {
		if strings.EqualFold(kind, trainingv1.MPIJobKind) {
			continue
		}
		if err := setUp(manager, common.GenNonGangSchedulerSetupFunc(), 1); err != nil {
			return nil, err
		}
		if err := webhooks.SupportedSchemeWebhook[kind](manager); err != nil {
			return nil, err
		}
	}
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, err
	}
	return manager, manager.AddReadyzCheck("readyz", manager.GetWebhookServer().StartedChecker())
}
