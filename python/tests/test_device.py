# SPDX-License-Identifier: Apache-2.0
"""Gradients on a device, for which tests/stand_in.py stands in."""


def test_a_device_has_the_bits_of_the_host(ranks):
    ranks(
        3,
        "device_cases.py",
        "every_collective_has_the_bits_of_the_host",
        "rounding_errors_go_back_to_the_device",
        "memories_and_halves_have_the_bits_of_the_host",
        "a_step_that_is_not_finite_changes_nothing",
        "a_step_that_is_undone_has_the_bits_of_the_host",
    )


def test_only_what_was_selected_crosses_the_bus(ranks):
    ranks(
        2,
        "device_cases.py",
        "a_hundredth_of_the_bytes_cross_the_bus",
        "whoever_hands_in_a_gradient_waits_for_nothing",
        "a_buffer_is_taken_again_once_its_copy_is_done",
        "says_what_cannot_be_on_a_device",
    )


def test_training_on_a_device_has_the_bits_of_the_host(ranks):
    ranks(
        2,
        "device_cases.py",
        "ddp_has_the_bits_of_the_host",
        "a_state_goes_from_device_to_host_and_back",
        "backward_is_not_held_up",
        "updates_have_the_bits_of_the_host",
    )
