// Kubeflow's training operator (PyTorchJob, TFJob and their like) on an address that it is told.
// The operator's own entry point listens on all addresses, and only with a certificate that it has
// made itself for a Service. Controllers, webhooks and their settings are those of that one; MPIJobs
// are left out, as where the operator of the newer kind runs.
package main

import (
	"strings"

	"fedq.io/rig/operators/start"
	trainingv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

func main() {
	start.Main(managerOn)
}

func managerOn(cluster *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, trainingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	cluster.QPS, cluster.Burst = 20, 30
	options.Scheme = scheme
	manager, err := ctrl.NewManager(cluster, options)
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
