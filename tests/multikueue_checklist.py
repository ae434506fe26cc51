"""What MultiKueue's own tests check, in our words, and which of our tests check the same.

The numbers are those of the specification of MultiKueue, section 6. An item has the tests that
cover it, or says why it does not apply here, or what is missing; `test_multikueue_checklist`
sees to it that every test named exists.
"""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """`tests` are `file::test` below tests/; `apart` says why it does not apply, or how we differ;
    `missing` what is not covered.
    """

    number: int
    words: str
    tests: tuple[str, ...] = ()
    apart: str = ""
    missing: str = ""


_C, _M, _I = "unit/core/test_", "unit/manager/test_", "integration/test_"
_J, _E, _A = "unit/jobs/test_", "unit/edge/test_", "unit/worker_agent/test_"
_K, _Q = "unit/jobs/kinds/test_", "unit/manager/test_automated_quotas.py::"

ONE_OFFER = "a job is offered to one cluster at a time: there are no losers"
NO_GATES = "the preemption plan is made once, for one cluster, so no gates are needed"
AUTOSCALING = "Ray's in-tree autoscaling, which is refused (decision 68)"
ONE_RECORD = "the Workload itself grows and shrinks; there is no second slice (decision 59)"

CHECKLIST: tuple[Item, ...] = (
    # Workloads
    Item(1, "a deleted ordinary workload is forgotten", (f"{_C}lifecycle.py::test_forgettable",)),
    Item(
        2,
        "a deleted one is forgotten after its copies",
        (
            f"{_M}manager.py::test_deleted_while_it_runs",
            f"{_I}dispatch.py::test_a_deleted_job_stops_on_its_worker",
        ),
    ),
    Item(
        3,
        "copies without a workload",
        (
            f"{_M}manager.py::test_orphans_are_removed",
            f"{_M}peer_faults.py::test_nothing_is_tried_where_there_is_no_link",
        ),
    ),
    Item(
        4,
        "no MultiKueue check: ignored",
        (f"{_M}local_queues.py::test_jobs_of_the_agent_are_left_alone",),
        apart="without FEDQ_LOCAL_QUEUES a queue without one uses all clusters",
    ),
    Item(
        5,
        "no owner",
        (f"{_M}manager.py::test_a_workload_that_lost_its_owner",),
        apart="a Workload without an owner is nobody's job: left alone instead of rejected",
    ),
    Item(6, "an owner of an unknown kind", apart="only kinds that are known are watched"),
    Item(
        7,
        "an owner that another controller manages",
        (f"{_J}batch_job.py::test_a_job_that_runs_here",),
        apart="it waits with the reason instead of being rejected: people can mend it",
    ),
    Item(8, "a worker cannot be read", (f"{_M}cluster_worker.py::test_a_server_that_says_no",)),
    Item(9, "workers that are away are passed over", (f"{_M}placement.py::test_all_at_once",)),
    Item(10, "no quota while a worker is away", (f"{_C}loss.py::test_leaving_a_lost_cluster",)),
    Item(
        11, "no quota: copies are removed", (f"{_M}lifecycle.py::test_preempted_across_clusters",)
    ),
    Item(
        12,
        "one worker does not take it, another does",
        (
            f"{_M}manager.py::test_refused_and_placed_elsewhere",
            f"{_I}dispatch.py::test_a_namespace_missing_on_one_worker_is_passed_over",
        ),
    ),
    Item(
        13,
        "a copy that is missing is made again",
        (f"{_C}lifecycle.py::test_a_listing_without_the_copy",),
    ),
    Item(14, "one reserves: the others are kept", apart=ONE_OFFER),
    Item(15, "one admits: the others are removed", apart=ONE_OFFER),
    Item(
        16,
        "an outdated copy is removed, the run is kept",
        (f"{_M}peer_faults.py::test_the_run_elsewhere_survives_the_return",),
    ),
    Item(
        17,
        "the grace is kept whatever other copies do",
        (f"{_C}loss.py::test_an_earlier_copy_does_no_harm",),
    ),
    Item(
        18,
        "evicted on the manager: the copy stops before the quota is free",
        (f"{_M}dispatcher.py::test_a_victim_makes_room",),
    ),
    Item(
        19,
        "evicted on the worker: it queues again",
        (
            f"{_A}preemption.py::test_a_copy_that_is_evicted",
            f"{_C}lifecycle_leaving.py::test_a_cluster_that_evicts_is_not_asked_again_at_once",
        ),
    ),
    Item(
        20,
        "OutOfSync is no result",
        apart="results are read from the copy of the Job, never from a Workload",
    ),
    Item(
        21,
        "a second pass changes nothing",
        (f"{_M}cluster_worker.py::test_create_again", f"{_M}dispatcher.py::test_it_rests"),
    ),
    Item(
        22, "only our own copy can end a job", (f"{_M}manager.py::test_a_foreign_job_of_that_name",)
    ),
    Item(23, "the last status is copied", (f"{_M}manager.py::test_the_whole_way",)),
    Item(24, "finished here: copies are removed", (f"{_C}lifecycle.py::test_the_whole_life",)),
    Item(
        25, "away for less than the timeout", (f"{_M}health.py::test_a_cut_shorter_than_the_lease",)
    ),
    Item(26, "away for longer", (f"{_M}clusters.py::test_lost_and_back",)),
    Item(27, "a restart is no reason to evict", (f"{_M}health.py::test_restarted",)),
    Item(28, "lost beyond the timeout", (f"{_C}loss.py::test_may_run_elsewhere",)),
    Item(
        29,
        "the worker answers and the copy is gone",
        (f"{_I}dispatch.py::test_a_copy_that_is_deleted_on_its_worker_runs_again",),
    ),
    Item(
        30, "admitted without a cluster", (f"{_J}departure.py::test_a_binding_taken_away_by_hand",)
    ),
    Item(
        31, "queued again: old copies go at the return", (f"{_M}clusters.py::test_lost_and_back",)
    ),
    Item(
        32,
        "a slice that was replaced",
        (f"{_M}elastic.py::test_a_slice_that_is_not_the_record",),
        ONE_RECORD,
    ),
    Item(
        33,
        "a slice without quota",
        (
            f"{_M}elastic.py::test_a_slice_that_is_not_the_record",
            f"{_M}elastic.py::test_larger_waits_for_quota",
        ),
        ONE_RECORD,
    ),
    Item(
        34,
        "a larger slice stays on its cluster",
        (
            f"{_M}elastic.py::test_larger_stays_on_its_cluster",
            f"{_M}elastic.py::test_larger_while_there_is_quota",
        ),
    ),
    Item(
        35,
        "slices beside an outdated copy",
        (
            f"{_C}elastic.py::test_plan",
            f"{_M}elastic.py::test_smaller_while_the_agent_is_asked_for_more",
        ),
        f"{ONE_OFFER}; a copy of another size is brought in line",
    ),
    Item(36, "gates are created closed", apart=NO_GATES),
    Item(
        37,
        "the first signal opens the first gate",
        (f"{_C}making_room.py::test_victims_leave_the_cluster_that_is_to_take_it",),
        NO_GATES,
    ),
    Item(
        38,
        "the next cluster after a time",
        (f"{_C}making_room.py::test_room_made_in_vain_is_remembered",),
        NO_GATES,
    ),
    Item(
        39,
        "and not before",
        (f"{_C}making_room.py::test_room_made_in_vain_is_remembered",),
        NO_GATES,
    ),
    Item(40, "no gate where none is needed", apart=NO_GATES),
    Item(
        41,
        "changes of checks, configs and clusters reach what they concern",
        (
            f"{_M}clusters.py::test_a_multikueueconfig_gets_another_cluster",
            f"{_M}clusters.py::test_a_cluster_is_taken_out_of_a_multikueueconfig",
            f"{_M}placement.py::test_by_labels_of_clusters",
            f"{_M}dispatcher.py::test_a_missing_check",
        ),
    ),
    # Clusters
    Item(
        42,
        "a cluster comes or changes",
        (
            f"{_M}kubeconfigs.py::test_a_secret_that_is_written_again",
            f"{_M}runtime.py::test_clusters_that_come_and_go",
        ),
    ),
    Item(
        43,
        "invalid and insecure kubeconfigs",
        (
            f"{_E}kubeconfig.py::test_insecure_settings_are_refused",
            f"{_E}kubeconfig.py::test_broken_ones_are_refused",
        ),
    ),
    Item(44, "its removal ends the client", (f"{_M}runtime.py::test_clusters_that_come_and_go",)),
    Item(
        45,
        "no watch: tried again",
        (f"{_E}informer.py::test_an_unreachable_cluster_is_asked_less_and_less",),
    ),
    Item(
        46,
        "success resets the attempts",
        (
            f"{_M}attempts.py::test_pauses",
            f"{_E}informer.py::test_watches_that_end_at_once_are_no_hot_loop",
        ),
    ),
    Item(
        47,
        "ClusterProfile: used, unsupported, missing, off, bad",
        (
            f"{_M}kubeconfigs.py::test_a_profile_and_its_plugin",
            f"{_M}kubeconfigs.py::test_a_profile_of_an_unknown_provider",
            f"{_M}kubeconfigs.py::test_a_profile_that_is_not_there_yet",
            f"{_M}kubeconfigs.py::test_profiles_are_switched_off",
            f"{_M}kubeconfigs.py::test_what_a_profile_says_is_not_trusted",
        ),
    ),
    Item(
        48,
        "backoff grows and has a limit",
        (f"{_M}attempts.py::test_pauses", f"{_E}retry.py::test_backoff"),
    ),
    Item(
        49, "the same config again", (f"{_M}kubeconfigs.py::test_a_secret_that_is_written_again",)
    ),
    Item(
        50,
        "states of a cluster and since when",
        (f"{_C}health.py::test_phases", f"{_C}health.py::test_suspect_and_what_follows"),
    ),
    Item(
        51,
        "attempts and the next one are shown",
        (f"{_M}attempts.py::test_what_is_told", f"{_M}kubeconfigs.py::test_a_plugin_that_fails"),
    ),
    Item(
        52,
        "what is left over is removed, and nothing else",
        (
            f"{_M}manager.py::test_orphans_are_removed",
            f"{_M}cluster_worker.py::test_a_foreign_job_is_not_touched",
            f"{_M}cluster_worker.py::test_delete_of_another_object",
        ),
    ),
    Item(
        53,
        "a watch hangs, fails, ends",
        (
            f"{_E}informer.py::test_a_silent_watch_is_given_up",
            f"{_E}informer.py::test_a_server_error_leaves_doubt_and_lists_again",
        ),
    ),
    Item(
        54,
        "one slow cluster blocks no other",
        (
            f"{_M}exposure.py::test_its_api_server_stands_still",
            f"{_M}runtime.py::test_an_actor_that_does_not_answer_is_replaced",
        ),
    ),
    Item(
        55,
        "paths of kubeconfigs",
        (
            f"{_E}kubeconfig_file.py::test_paths_that_are_refused",
            f"{_E}kubeconfig_file.py::test_files_below_the_directory",
        ),
    ),
    Item(
        56,
        "concurrent changes",
        (f"{_C}lifecycle_simulation.py::test_whatever_happens",),
        "one event loop: there is no shared memory to race for",
    ),
    Item(
        57, "nothing is left running", (f"{_M}runtime.py::test_everything_ends_with_the_manager",)
    ),
    Item(
        58,
        "changes of files",
        (
            f"{_E}kubeconfig_file.py::test_changes_are_heard_of",
            f"{_E}kubeconfig_file.py::test_a_mounted_secret_is_swapped",
            f"{_E}kubeconfig_file.py::test_a_directory_that_comes_later",
            f"{_E}kubeconfig_file.py::test_many_changes_are_told_together",
        ),
    ),
    # Checks, queues, dispatchers
    Item(
        59,
        "condition Active of the check",
        (
            f"{_C}multikueue_check.py::test_by_how_its_clusters_stand",
            f"{_M}kubeconfigs.py::test_the_condition_of_the_admission_check",
        ),
    ),
    Item(
        60,
        "quota of the manager from that of the workers",
        (
            f"{_C}automated_quota.py::test_clusters_add_up",
            f"{_C}automated_quota.py::test_flavors_count_by_name",
            f"{_Q}test_a_cluster_that_is_away_counts_with_what_is_bound_there",
        ),
    ),
    Item(
        61, "first rounds with 1, 2, 3, 15 workers", (f"{_C}dispatchers.py::test_the_first_round",)
    ),
    Item(
        62,
        "all are nominated",
        (
            f"{_C}dispatchers.py::test_all_are_nominated",
            f"{_M}placement.py::test_no_round_for_who_can_never_take_it",
        ),
    ),
    Item(63, "a round is open", (f"{_C}dispatchers.py::test_a_round_that_is_open",)),
    Item(64, "a round is over", (f"{_C}dispatchers.py::test_a_round_that_is_over",)),
    Item(65, "no workers", (f"{_C}dispatchers.py::test_the_first_round",)),
    Item(66, "steps of two", (f"{_C}dispatchers.py::test_a_round_that_is_over",)),
    Item(67, "alphabetical without the gate", apart="the order of the config holds always"),
    # Kinds
    Item(
        68,
        "per kind: create, status, skip while suspended, delete, managedBy",
        (
            f"{_J}mirror.py::test_golden",
            f"{_J}batch_job.py::test_merge_status",
            f"{_J}batch_job.py::test_a_job_that_runs_here",
            f"{_K}table.py::test_a_copy_is_suspended_and_has_no_manager",
            f"{_K}table.py::test_the_whole_status_comes_back",
            f"{_K}table.py::test_on_the_management_cluster",
        ),
    ),
    Item(
        69,
        "pods keep SchedulingGated",
        (f"{_K}pods.py::test_status_of_each_comes_back_and_is_reset",),
    ),
    Item(
        70,
        "LeaderWorkerSet: index and limit",
        (f"{_K}scaled.py::test_at_home",),
        "it is one workload as a whole here",
    ),
    Item(
        71,
        "elastic Jobs",
        (
            f"{_J}elastic.py::test_the_numbers_of_a_copy",
            f"{_J}elastic.py::test_what_an_agent_is_asked_for",
            f"{_J}elastic.py::test_a_copy_is_never_larger_than_what_was_given",
            f"{_J}elastic.py::test_a_copy_that_has_grown",
            f"{_A}growths.py::test_room_for_more",
            f"{_A}growths.py::test_no_room",
        ),
    ),
    Item(
        72,
        "elastic RayClusters",
        (
            f"{_K}elastic_sets.py::test_bounds_go_with_the_number",
            f"{_K}elastic_sets.py::test_what_cannot_be_read",
            f"{_K}elastic_sets.py::test_a_copy_is_never_larger_than_what_was_given",
            f"{_K}elastic_sets.py::test_a_copy_that_has_grown",
            f"{_A}growths_of_sets.py::test_room_for_more",
            f"{_A}growths_of_sets.py::test_all_or_nothing",
        ),
        ONE_RECORD,
        AUTOSCALING,
    ),
    Item(
        73,
        "kinds by configuration",
        (f"{_I}kinds.py::test_a_kind_by_configuration_is_picked_up_when_its_crd_appears",),
    ),
    # Integration
    Item(
        74,
        "each kind runs and finishes",
        (
            f"{_I}dispatch.py::test_a_job_runs_on_a_worker_and_comes_back",
            f"{_I}kinds.py::test_a_job_set_runs_on_a_worker_and_comes_back",
            f"{_I}kinds.py::test_a_group_of_pods_runs_on_one_worker",
            f"{_I}kinds.py::test_a_py_torch_job_runs_and_fails",
            f"{_I}kinds.py::test_a_stateful_set_runs_as_a_whole_on_a_worker",
            f"{_I}every_kind.py::test_every_kind_runs_on_one_worker",
        ),
    ),
    Item(
        75,
        "managed by another controller: never runs",
        (f"{_I}dispatch.py::test_a_job_that_runs_under_another_controller_is_named",),
    ),
    Item(
        76,
        "a worker with jobs of its own",
        (
            f"{_I}dispatch.py::test_a_worker_local_job_is_admitted_by_the_agent",
            f"{_I}local_queues.py::test_a_queue_without_the_check_runs_its_jobs_here",
            f"{_I}local_queues.py::test_a_queue_with_the_check_sends_its_jobs_away",
        ),
        apart="a manager cannot be a worker of itself: an agent beside it runs local queues",
    ),
    Item(
        77,
        "a local job of the same name",
        (f"{_I}dispatch.py::test_a_foreign_job_of_the_same_name_is_left_alone",),
    ),
    Item(
        78,
        "deletion without garbage collection",
        (f"{_I}dispatch.py::test_a_deleted_job_stops_on_its_worker",),
    ),
    Item(
        79,
        "rejected: no copies stay",
        (f"{_M}lifecycle.py::test_a_check_that_wants_a_retry_and_one_that_rejects",),
    ),
    Item(
        80,
        "deleted while the worker was away",
        (f"{_M}clusters.py::test_deleted_while_its_cluster_was_away",),
    ),
    Item(
        81,
        "finished while the worker was away",
        (f"{_M}peer_faults.py::test_it_was_completed_during_the_cut",),
    ),
    Item(82, "a lost connection: queued again later", (f"{_M}clusters.py::test_lost_and_back",)),
    Item(
        83,
        "a brief loss: nothing moves",
        (
            f"{_M}health.py::test_a_cut_shorter_than_the_lease",
            f"{_M}peer_faults.py::test_back_in_the_same_epoch",
        ),
    ),
    Item(
        84,
        "a restart of the manager",
        (
            f"{_M}clusters.py::test_restarted_beside_a_fenced_cluster",
            f"{_M}manager.py::test_restarted",
        ),
    ),
    Item(
        85,
        "the worker takes its admission back",
        (f"{_A}preemption.py::test_a_copy_that_is_evicted",),
    ),
    Item(
        86,
        "further checks per flavor",
        (
            f"{_C}checks.py::test_required_checks",
            f"{_M}lifecycle.py::test_checks_of_others_come_before_the_offer",
        ),
    ),
    Item(
        87,
        "pod groups wait for further checks",
        (f"{_M}kinds.py::test_a_group_waits_for_further_checks",),
    ),
    Item(
        88,
        "the incremental dispatcher",
        (
            f"{_M}placement.py::test_incremental",
            f"{_M}placement.py::test_a_restart_begins_no_round_anew",
        ),
    ),
    Item(89, "an external dispatcher", (f"{_M}placement.py::test_an_external_dispatcher",)),
    Item(90, "all at once: the list is written", (f"{_M}placement.py::test_all_at_once",)),
    Item(
        91,
        "the config gains a worker",
        (f"{_M}clusters.py::test_a_multikueueconfig_gets_another_cluster",),
    ),
    Item(
        92,
        "ProvisioningRequest on the worker",
        (
            f"{_I}worker_checks.py::test_the_winner_is_admitted_when_its_checks_are_ready",
            f"{_I}worker_checks.py::test_who_is_rejected_everywhere_waits_with_the_reason",
            f"{_A}copy_checks.py::test_a_copy_waits_for_the_checks_of_the_worker",
            f"{_A}provisioning.py::test_nodes_are_asked_for",
        ),
    ),
    Item(93, "losers are kept until the real admission", apart=ONE_OFFER),
    Item(
        94,
        "preemption on the same and on another worker",
        (
            f"{_M}dispatcher.py::test_victims_leave_the_cluster_that_takes_the_preemptor",
            f"{_I}lifecycle.py::test_a_job_of_higher_priority_gets_the_quota_of_another_cluster",
        ),
    ),
    Item(
        95,
        "the priority goes along",
        (
            f"{_J}mirror.py::test_golden",
            f"{_M}edited.py::test_the_priority_of_a_job_on_a_cluster",
        ),
    ),
    Item(96, "gates of clusters are independent", apart=NO_GATES),
    Item(
        97,
        "no preemptions in two clusters for one job",
        (f"{_C}making_room.py::test_between_clusters_the_least_is_taken",),
    ),
    Item(
        98,
        "elastic up and down",
        (
            f"{_M}elastic.py::test_larger_while_there_is_quota",
            f"{_M}elastic.py::test_smaller_frees_its_quota_at_once",
            f"{_A}growths.py::test_several_in_a_row",
        ),
    ),
    Item(
        99,
        "a slice is kept in the handover",
        (
            f"{_M}elastic.py::test_larger_waits_for_quota",
            f"{_M}elastic.py::test_another_manager_goes_on",
        ),
        ONE_RECORD,
    ),
    Item(
        100,
        "RayCluster is scaled",
        (
            f"{_I}elastic.py::test_worker_groups_of_a_ray_cluster",
            f"{_M}elastic_ray.py::test_larger_waits_for_quota",
            f"{_M}elastic_ray.py::test_smaller_frees_quota_at_once",
        ),
        ONE_RECORD,
        AUTOSCALING,
    ),
    Item(
        101, "a required topology", (f"{_I}agent_topology.py::test_required_and_what_others_leave",)
    ),
    Item(
        102,
        "the topology is decided later",
        (f"{_A}topology.py::test_places_in_the_workload",),
        "the worker decides it; the manager's flavors have none",
    ),
    Item(
        103,
        "ProvisioningRequest and topology",
        (
            f"{_A}second_pass.py::test_a_copy_gets_its_places_when_the_nodes_are_there",
            f"{_A}second_pass.py::test_what_the_check_adds_says_where",
        ),
    ),
    Item(
        104,
        "claims of devices",
        (
            f"{_I}agent_claims.py::test_claims_are_counted_as_the_cluster_defines_them",
            f"{_M}claims.py::test_a_template_that_is_missing_and_then_made_anew",
        ),
    ),
    Item(
        105,
        "conditions Active of check and cluster, Secret and file",
        (
            f"{_M}kubeconfigs.py::test_the_condition_of_the_admission_check",
            f"{_M}kubeconfigs.py::test_a_file_comes_changes_and_goes",
        ),
    ),
    Item(
        106,
        "a refused config that is mended",
        (f"{_M}kubeconfigs.py::test_bad_credentials_and_good_ones_again",),
    ),
    Item(107, "paths below one directory", (f"{_M}kubeconfigs.py::test_a_path_elsewhere",)),
    Item(
        108,
        "the client goes with the object",
        (f"{_M}clusters.py::test_a_cluster_is_taken_out_of_the_federation",),
    ),
    Item(109, "automated quota is switched on and off", (f"{_Q}test_it_is_switched_on_and_off",)),
    Item(
        110,
        "ClusterProfile, also when it is switched off",
        (
            f"{_M}kubeconfigs.py::test_profiles_are_switched_off",
            f"{_M}kubeconfigs.py::test_the_crd_of_profiles_is_not_installed",
            f"{_M}kubeconfigs.py::test_a_plugin_that_is_not_installed",
        ),
    ),
    Item(
        111,
        "only kinds that are switched on are watched",
        (
            "unit/api/test_configuration_kinds.py::test_switches",
            f"{_E}kind_informers.py::test_only_kinds_that_are_switched_on_are_watched",
            f"{_M}kinds.py::test_kinds_that_are_switched_off_are_not_followed",
            f"{_I}dispatchers.py::test_kinds_that_are_switched_on",
        ),
    ),
    Item(
        112,
        "RayService: config pushed live",
        (
            f"{_M}kinds.py::test_what_a_service_serves_is_pushed_while_it_runs",
            f"{_I}kinds_live.py::test_what_a_ray_service_serves_is_pushed",
        ),
    ),
    Item(113, "owner references are dropped", (f"{_J}mirror.py::test_golden",)),
    # End to end
    Item(
        114,
        "every kind, whole, on one worker",
        (
            f"{_I}dispatch.py::test_a_job_runs_on_a_worker_and_comes_back",
            f"{_I}kinds.py::test_a_group_of_pods_runs_on_one_worker",
            f"{_I}every_kind.py::test_every_kind_runs_on_one_worker",
            f"{_I}real_controllers.py::test_a_job_set_runs_on_a_worker_and_comes_back",
            f"{_I}real_controllers.py::test_one_that_is_held_leaves_nothing_behind_and_runs_again",
            f"{_I}real_controllers.py::test_a_leader_worker_set_runs_as_a_whole",
            f"{_I}real_kubeflow.py::test_one_runs_on_a_worker_and_comes_back",
            f"{_I}real_kubeflow.py::test_one_that_is_held_leaves_nothing_behind_and_runs_again",
            f"{_I}real_ray.py::test_a_cluster_runs_on_a_worker_as_a_whole",
            f"{_I}real_ray.py::test_a_job_runs_on_a_worker_and_comes_back",
            f"{_I}real_ray.py::test_a_service_is_stopped_by_deleting_its_copy",
            f"{_I}real_ray.py::test_a_service_that_waited_starts",
            f"{_I}real_spark.py::test_one_runs_on_a_worker_and_comes_back",
            f"{_I}real_spark.py::test_one_that_is_held_leaves_nothing_behind_and_runs_again",
            f"{_I}real_trainer.py::test_one_runs_on_a_worker_and_comes_back",
            f"{_I}real_volcano.py::test_one_runs_on_a_worker_and_comes_back",
            f"{_I}real_volcano.py::test_one_that_is_held_leaves_nothing_behind_and_runs_again",
            f"{_I}real_mxjob.py::test_one_runs_on_a_worker_and_its_end_comes_back",
            f"{_I}real_appwrapper.py::test_one_runs_on_a_worker_and_comes_back",
            f"{_I}real_appwrapper.py::test_one_that_is_held_leaves_nothing_behind_and_runs_again",
        ),
    ),
    Item(
        115,
        "preemption",
        (
            f"{_I}lifecycle.py::test_a_job_of_higher_priority_gets_the_quota_of_another_cluster",
            f"{_I}agent_preemption.py::test_a_copy_waits_for_its_victims",
        ),
    ),
    Item(
        116,
        "evicted on the worker: done again",
        (f"{_I}agent_controls.py::test_a_copy_in_a_drained_queue",),
    ),
    Item(
        117,
        "the priority is changed",
        (
            f"{_M}edited.py::test_the_priority_of_a_waiting_job",
            f"{_M}edited.py::test_the_priority_of_a_job_on_a_cluster",
        ),
    ),
    Item(
        118,
        "roles are shared",
        (
            f"{_I}dispatch.py::test_a_worker_local_job_is_admitted_by_the_agent",
            f"{_I}local_queues.py::test_a_queue_gets_the_check_while_jobs_run_here",
            f"{_I}local_queues.py::test_a_queue_loses_the_check_while_jobs_run_there",
            f"{_M}identity.py::test_the_management_cluster_registered_as_a_worker",
        ),
    ),
    Item(119, "quotas are added up", (f"{_Q}test_the_sum_of_what_clusters_report",)),
    Item(
        120,
        "topology and devices",
        (
            f"{_I}agent_topology.py::test_ranks_are_neighbours_and_one_node_is_named_in_the_template",
            f"{_I}agent_claims.py::test_claims_are_counted_as_the_cluster_defines_them",
        ),
    ),
    Item(
        121,
        "the incremental dispatcher on real servers",
        (f"{_I}dispatchers.py::test_incremental",),
    ),
    Item(
        122,
        "the network is cut and healed",
        (
            f"{_I}lease.py::test_a_short_absence",
            f"{_M}clusters.py::test_all_clusters_are_away_and_one_is_back",
        ),
    ),
    Item(
        123,
        "ClusterProfile with and without its plugin",
        (
            f"{_M}kubeconfigs.py::test_a_profile_and_its_plugin",
            f"{_M}kubeconfigs.py::test_a_plugin_that_is_not_installed",
        ),
    ),
    Item(
        124,
        "preemptions one cluster after another",
        (f"{_C}making_room.py::test_the_fewest_victims_over_all_clusters",),
        NO_GATES,
    ),
)
