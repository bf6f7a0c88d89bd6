# SPDX-License-Identifier: Apache-2.0
"""Two levels: four ranks as two nodes of two."""


def test_two_nodes_of_two_train_as_they_do_without(ranks):
    ranks(
        4,
        "levels_cases.py",
        "density_one_is_plain_ddp",
        "nodes_are_hosts_or_as_told",
        "one_node_sends_nothing",
        "a_rank_sends_for_its_shard_alone",
        "one_percent_is_the_same_bits_everywhere",
        "momentum_and_bf16_are_as_without_nodes",
        "clipping_is_of_the_mean_of_a_node",
    )


def test_two_nodes_of_two_lose_nothing(ranks):
    ranks(
        4,
        "levels_cases.py",
        "nothing_is_lost_from_the_first_step_on",
        "a_step_that_is_not_finite_is_undone",
        "resumes_to_the_same_bits",
        "any_nodes_go_on_with_a_state",
    )
