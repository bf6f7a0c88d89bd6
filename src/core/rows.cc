// SPDX-License-Identifier: Apache-2.0
//
// Many small selections. The gradient is folded in a little ahead of them, so that they
// read from the cache. A row's candidates are what reaches a fraction of what its
// neighbours' largest came down to; with too few of these the row is read again.
#include "core/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include "core/select.h"
#include "core/shortlist.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot::core {
namespace {

constexpr std::size_t kTile = 16;    // columns that are copied together: a line of cache
constexpr std::size_t kLong = 8192;  // such a row is worth a histogram

// In order of magnitude, and of equals the lower position first.
std::uint64_t key_of(float value, std::uint32_t position) {
  return std::uint64_t{magnitude_bits(value)} << 32 | (~position & 0xFFFFFFFF);
}
std::uint32_t position_of(std::uint64_t key) { return ~static_cast<std::uint32_t>(key); }
float magnitude_of(std::uint64_t key) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32));
}

std::uint32_t position_of_largest(std::span<const float> row) {
  std::uint32_t best = 0;
  std::uint32_t best_bits = magnitude_bits(row[0]);
  for (std::uint32_t i = 1; i < row.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(row[i]);
    best = bits > best_bits ? i : best;
    best_bits = std::max(bits, best_bits);
  }
  return best;
}

}  // namespace

// The largest whole number less than length * (k+1) / n; 64 bits hold the product, since
// positions have 32.
std::uint64_t RowShare::of(std::uint64_t length) const {
  if (k == 0 || length == 0) return 0;
  if (density > 0) return coordinates_for(length, density);
  return std::max<std::uint64_t>(1, (length * (std::min(k, n) + 1) - 1) / n);
}

Rows::Rows(const Layout& layout) : size_(layout.size()) {
  for (const TensorSlot& tensor : layout.tensors) {
    if (tensor.size() == 0) continue;
    if (tensor.shape.size() < 2) {
      grids_.push_back({tensor.offset, 1, tensor.size(), 1});
    } else {
      const std::uint64_t outer = tensor.shape[0];
      const std::uint64_t length = tensor.shape[1];
      grids_.push_back({tensor.offset, outer, length, tensor.size() / (outer * length)});
    }
  }
}

std::size_t Rows::count(std::size_t k, double density) const {
  const RowShare share = {k, size_, density};
  std::size_t total = 0;
  for (const Grid& grid : grids_)
    total += grid.outer * grid.stride * share.of(grid.length);
  return total;
}

bool Rows::select(std::span<float> residual, std::span<float> grad, std::size_t k,
                  Sparse& out, double density) {
  if (residual.size() != size_)
    throw ContractError("Rows of " + std::to_string(size_) +
                        " coordinates were asked for in a vector of " +
                        std::to_string(residual.size()) + ".");
  const RowShare share = {k, size_, density};
  out.clear();
  folded_ = 0;
  for (Grid& grid : grids_) {
    const std::size_t count = share.of(grid.length);
    const std::uint64_t block = grid.length * grid.stride;
    for (std::uint64_t o = 0; o < grid.outer; ++o) {
      const std::uint64_t begin = grid.offset + o * block;
      if (!fold_up_to(begin + block, residual, grad)) {
        out.clear();
        return false;
      }
      if (count == 0) continue;
      const auto part = residual.subspan(begin, block);
      if (grid.stride == 1) {
        take_row(part, begin, count, grid, out);
      } else {
        take_block(part, begin, count, grid, out);
      }
    }
  }
  return true;
}

bool Rows::fold_up_to(std::uint64_t end, std::span<float> residual,
                      std::span<float> grad) {
  while (folded_ < end) {
    const std::uint64_t length = std::min<std::uint64_t>(kSweepBlock, size_ - folded_);
    const std::uint64_t done = sweep_block(residual, grad, folded_, kInfinityBits, hits_);
    folded_ += done;
    if (done == length) continue;
    if (!grad.empty()) undo_fold(residual.first(folded_), grad.first(folded_));
    return false;
  }
  return true;
}

void Rows::take_row(std::span<float> row, std::uint64_t offset, std::size_t count,
                    Grid& grid, Sparse& out) {
  compressor(row, count, grid);
  for (const std::uint32_t i : picked_)
    out.push_back(static_cast<std::uint32_t>(offset + i), row[i]);
}

// The rows of a block lie across it: each is copied together before it is looked at.
void Rows::take_block(std::span<float> block, std::uint64_t offset, std::size_t count,
                      Grid& grid, Sparse& out) {
  places_.clear();
  columns_.resize(kTile * grid.length);
  for (std::uint64_t first = 0; first < grid.stride; first += kTile) {
    const std::uint64_t width = std::min<std::uint64_t>(kTile, grid.stride - first);
    for (std::uint64_t i = 0; i < grid.length; ++i)
      for (std::uint64_t c = 0; c < width; ++c)
        columns_[c * grid.length + i] = block[i * grid.stride + first + c];
    for (std::uint64_t c = 0; c < width; ++c) {
      compressor(std::span(columns_).subspan(c * grid.length, grid.length), count, grid);
      for (const std::uint32_t i : picked_)
        places_.push_back(static_cast<std::uint32_t>(i * grid.stride + first + c));
    }
  }
  std::sort(places_.begin(), places_.end());
  for (const std::uint32_t i : places_)
    out.push_back(static_cast<std::uint32_t>(offset + i), block[i]);
}

void Rows::compressor(std::span<float> row, std::size_t count, Grid& grid) {
  picked_.clear();
  if (count == 1) {
    picked_.push_back(position_of_largest(row));
    return;
  }
  list(row, (1 - grid.slack) * grid.level);
  const std::size_t listed = keys_.size();
  if (listed < count) list(row, row.size() < kLong ? 0 : floor_over(row, count));
  if (keys_.size() < count)
    throw ContractError("A row of " + std::to_string(row.size()) + " coordinates has " +
                        std::to_string(keys_.size()) + " candidates for " +
                        std::to_string(count) + " places.");
  ranked_ = keys_;
  const auto last = ranked_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(ranked_.begin(), last, ranked_.end(), std::greater<>());
  for (const std::uint64_t key : keys_)
    if (key >= *last) picked_.push_back(position_of(key));
  learn(magnitude_of(*last), count, listed, grid);
}

// Half as many candidates again as are wanted, and a few, is a good compromise between
// ranking too many and reading a row twice.
void Rows::learn(float level, std::size_t count, std::size_t listed, Grid& grid) {
  float change = 2;
  if (listed >= count) {
    const float spare = static_cast<float>(count) / 2 + 8;
    change = std::clamp(spare / static_cast<float>(listed - count + 1), 0.8F, 1.25F);
  }
  grid.slack = std::clamp(grid.slack * change, 0.005F, 0.5F);
  grid.level = grid.level > 0 ? 0.75F * grid.level + 0.25F * level : level;
}

void Rows::list(std::span<float> row, float floor) {
  keys_.clear();
  for (std::size_t first = 0; first < row.size(); first += kSweepBlock) {
    static_cast<void>(sweep_block(row, {}, first, floor_of(floor), hits_));
    for (std::size_t i = 0; i < hits_.count; ++i)
      keys_.push_back(key_of(hits_.value[i], hits_.index[i]));
  }
}

}  // namespace topknot::core
