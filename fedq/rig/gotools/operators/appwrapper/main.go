// The AppWrapper controller on an address that it is told. Its own entry point listens on all
// addresses, and only with a certificate that it has made itself for a Service. Controllers, webhooks
// and their settings are those of that one.
package main

import (
	"fedq.io/rig/operators/start"
	awv1beta2 "github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/pkg/config"
	"github.com/project-codeflare/appwrapper/pkg/controller"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	start.Main(managerOn)
}

func managerOn(cluster *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, awv1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	options.Scheme = scheme
	manager, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return nil, err
	}
	settings := config.NewAppWrapperConfig()
	if err := controller.SetupWebhooks(manager, settings); err != nil {
		return nil, err
	}
	if err := controller.SetupControllers(manager, settings); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	close(ready) // the certificate is there
	return manager, controller.SetupProbeEndpoints(manager, ready)
}
