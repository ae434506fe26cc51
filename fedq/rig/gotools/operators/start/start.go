// Package start runs an operator on addresses that it is told, with a certificate that it is given.
package start

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Main makes a manager with these options and more, and runs it until it is told to stop.
func Main(made func(cluster *rest.Config, options ctrl.Options) (ctrl.Manager, error)) {
	host := flag.String("host", "127.0.0.1", "Address on which it listens.")
	health := flag.Int("health-port", 8081, "Port of /healthz and /readyz.")
	port := flag.Int("webhook-port", 9443, "Port of the webhooks.")
	certificates := flag.String("cert-dir", "", "Folder with tls.crt and tls.key of the webhooks.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	options := ctrl.Options{
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: fmt.Sprintf("%s:%d", *host, *health),
		WebhookServer:          webhook.NewServer(webhook.Options{Host: *host, Port: *port, CertDir: *certificates}),
	}
	if err := run(options, made); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(options ctrl.Options, made func(*rest.Config, ctrl.Options) (ctrl.Manager, error)) error {
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := made(cluster, options)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
