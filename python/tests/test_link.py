# SPDX-License-Identifier: Apache-2.0
"""The transport over Gloo."""

import pytest


def test_keeps_messages_in_order_and_channels_apart(ranks):
    ranks(
        2,
        "link_cases.py",
        "many_messages_under_way_come_in_order",
        "messages_wait_for_receives_that_come_late",
        "channels_are_apart",
        "native_allreduce_sums",
        "too_long_a_message_is_refused",
        "an_abandoned_channel_lets_go_of_memory",
    )


def test_serves_four_ranks(ranks):
    ranks(
        4,
        "link_cases.py",
        "many_messages_under_way_come_in_order",
        "messages_wait_for_receives_that_come_late",
    )


@pytest.mark.parametrize("count", [2, 3, 7])
def test_has_one_thread_however_many_ranks_there_are(ranks, count):
    ranks(count, "link_cases.py", "a_link_has_one_thread")


def test_names_the_rank_that_is_silent(ranks):
    ranks(
        3,
        "link_cases.py",
        "a_silent_rank_is_named",
        "a_rank_that_takes_no_large_message_is_named",
        "a_wait_that_was_survived_is_forgotten",
        "a_stopped_process_is_named",
    )
