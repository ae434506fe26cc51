"""A slow, obvious model of the admission specification, §3 to §7, to hold the core against.

It is written from the text of the specification alone and shares only the types of the core. Every
number is computed from its definition whenever it is asked for; nothing is added and taken away
again. Left out: topology, admission fair sharing, second passes, elastic jobs, blockAdmission.

    quota        §4    the quota tree
    flavors      §5    which flavors a workload gets, and how well they fit
    candidates   §6    whom a workload may evict, in which order; what both algorithms share
    preemption   §6.1  classical preemption, and the choice between the two
    fair         §6.2, §6.3  shares and fair preemption
    cycle        §7    one scheduling cycle over the heads of the queues
    queues       §3    heaps, parked workloads, reactivation
"""
