module github.com/kubeflow/spark-operator/v2/fedq

go 1.26.0
