"""Print what registers a worker: `python docs/join.py NAME KUBECONFIG | kubectl apply -f -`.

The kubeconfig is that of the worker's ServiceAccount fedq-system/fedq-mirror, with CA and token
inline. Printed are the Secret with it, the MultiKueueCluster, and the ServiceAccount `agent-NAME`
with which the cluster's agent renews its Lease on the management cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path

from federation.api import yaml_text
from federation.api.access import agent_access, cluster_registration


def main() -> int:
    """Exit code 2 when the arguments are no name and file."""
    if len(sys.argv) != 3 or not Path(sys.argv[2]).is_file():
        sys.stderr.write(f"{__doc__}")
        return 2
    name, kubeconfig = sys.argv[1], Path(sys.argv[2]).read_text()
    objects = [*agent_access(name), *cluster_registration(name, kubeconfig)]
    sys.stdout.write(yaml_text.dump_all(objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
