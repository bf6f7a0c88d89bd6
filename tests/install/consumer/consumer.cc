// SPDX-License-Identifier: Apache-2.0
//
// What a user's first program needs of an installed Topknot.
#include <topknot/topknot.h>

int main() {
  topknot::Sparse pairs;
  pairs.push_back(3, 0.5F);
  const topknot::SparseView view = pairs;
  return view.size() == 1 && topknot::Layout::flat(7).size() == 7 ? 0 : 1;
}
