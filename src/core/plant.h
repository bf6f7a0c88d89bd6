// SPDX-License-Identifier: Apache-2.0
//
// Bugs that are planted to test the tests. TOPKNOT_PLANT(name) is true where the bug `name` is
// to be done. It is false, the constant, but in the build of preset asan, in which the variable
// TOPKNOT_PLANTED names one. tests/mutants/ has the list, and the tests that must find each.
#pragma once

#ifdef TOPKNOT_PLANTS

namespace topknot::core {
bool is_planted(const char* name);  // in tests/mutants/
}

#define TOPKNOT_PLANT(name)                                       \
  ([] {                                                           \
    static const bool is_it = ::topknot::core::is_planted(#name); \
    return is_it;                                                 \
  }())

#else

#define TOPKNOT_PLANT(name) false

#endif
