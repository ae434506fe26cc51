// Kubeflow's MPI operator (MPIJob v2beta1) that listens nowhere. The operator's own entry point has a
// page for probes on port 8080 of all addresses, and elects a leader. Controller and settings are
// those of that one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	mpischeme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	mpiinformers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	settings := options.NewServerOption()
	settings.AddFlags(flag.CommandLine)
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(settings.QPS), settings.Burst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	jobs, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := mpischeme.AddToScheme(scheme.Scheme); err != nil { // for its events
		return err
	}
	seen := informers.NewSharedInformerFactory(client, 0)
	seenJobs := mpiinformers.NewSharedInformerFactory(jobs, 0)
	core, batch := seen.Core().V1(), seen.Batch().V1()
	found, err := controller.NewMPIJobController(
		ctx, client, jobs, nil, nil,
		core.ConfigMaps(), core.Secrets(), core.Services(), batch.Jobs(), core.Pods(),
		seen.Scheduling().V1().PriorityClasses(), seenJobs.Kubeflow().V2beta1().MPIJobs(), settings)
	if err != nil {
		return err
	}
	seen.Start(ctx.Done())
	seenJobs.Start(ctx.Done())
	return found.Run(settings.Threadiness, ctx.Done())
}
