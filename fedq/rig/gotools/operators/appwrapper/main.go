// The AppWrapper controller on an address that it is told. Its own entry point listens on all
// addresses, and only with a certificate that it has made itself for a Service. Controllers, webhooks
// and their settings are those of that one.
package main

import (
	"flag"
	"fmt"
	"os"

	awv1beta2 "github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/pkg/config"
	"github.com/project-codeflare/appwrapper/pkg/controller"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
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
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, awv1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: fmt.Sprintf("%s:%d", host, health),
		WebhookServer:          webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: certificates}),
	})
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
