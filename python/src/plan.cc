// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace topknot::python {
namespace {

// In the layout of the part in place: another part's tensor, which is all zeros here.
constexpr std::string_view kElsewhere = "@";

std::string elsewhere(const std::string& name) {
  std::string marked(kElsewhere);
  marked += name;
  return marked;
}

std::size_t size_of(const engine::Group& group, const Layout& layout) {
  std::size_t size = 0;
  for (const std::size_t i : group.tensors) size += layout.tensors[i].size();
  return size;
}

}  // namespace

void Totals::add(const Totals& other) {
  steps = std::max(steps, other.steps);
  not_finite += other.not_finite;
  coordinates += other.coordinates;
  wanted += other.wanted;
  agreed += other.agreed;
  sent_bytes += other.sent_bytes;
  sent_messages += other.sent_messages;
  select_seconds += other.select_seconds;
  wait_seconds += other.wait_seconds;
  seconds += other.seconds;
}

Plan::Plan(Layout layout, const Config& config, Transport& link, int& next_channel)
    : layout_(std::move(layout)), rollback_(config.rollback) {
  std::vector<engine::Group> groups =
      engine::sort_by_density(layout_, config.rules, config.density);
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    return size_of(a, layout_) < size_of(b, layout_);
  });
  for (const engine::Group& group : groups)
    parts_.push_back(
        make_part(group, &group == &groups.back(), config, link, next_channel));
}

Plan::Part Plan::make_part(const engine::Group& group, bool in_place,
                           const Config& config, Transport& link,
                           int& next_channel) const {
  Part part;
  Layout own;
  if (in_place) {
    own = layout_;
    for (TensorSlot& tensor : own.tensors) tensor.name = elsewhere(tensor.name);
  }
  for (const std::size_t i : group.tensors) {
    const TensorSlot& tensor = layout_.tensors[i];
    part.pieces.push_back({tensor.offset, tensor.size()});
    if (in_place) {
      own.tensors[i].name = tensor.name;
    } else {
      own.tensors.push_back({tensor.name, part.size, tensor.shape});
    }
    part.size += tensor.size();
  }
  if (!in_place) part.lifted.resize(part.size);
  const bool whole = group.density >= 1;
  part.schedule =
      make_schedule(config.recipe.schedule, group.density, config.steps_per_epoch);
  const engine::Recipe recipe =
      (whole ? config.recipe.whole() : config.recipe)
          .clipped(config.clip, link.size(), part.size,
                   config.coordinates == 0 ? layout_.size() : config.coordinates);
  part.bucket = std::make_unique<engine::Bucket>(own, recipe, link, next_channel++);
  if (!whole && part.schedule->density(0) >= 1)
    part.whole =
        std::make_unique<engine::Bucket>(own, recipe.whole(), link, next_channel++);
  return part;
}

// Hands each part its own tensors: those of the part in place where they are, in a vector in
// which the others are zeros.
template <typename Exchange>
bool Plan::in_parts(std::span<float> x, Exchange exchange) {
  for (Part& part : parts_) {
    std::size_t at = 0;
    if (part.lifted.empty()) continue;
    for (const Piece& piece : part.pieces) {
      const auto from = x.subspan(piece.offset, piece.size);
      std::copy(from.begin(), from.end(), part.lifted.begin() + at);
      std::fill(from.begin(), from.end(), 0.0F);
      at += piece.size;
    }
  }
  bool finite = true;
  for (Part& part : parts_)
    finite &= exchange(part, part.lifted.empty() ? x : std::span<float>(part.lifted));
  if (!finite) std::fill(x.begin(), x.end(), std::numeric_limits<float>::quiet_NaN());
  for (Part& part : parts_) {
    std::size_t at = 0;
    if (part.lifted.empty() || !finite) continue;
    for (const Piece& piece : part.pieces) {
      std::copy_n(part.lifted.begin() + at, piece.size, x.begin() + piece.offset);
      at += piece.size;
    }
  }
  return finite;
}

bool Plan::reduce(std::span<float> x, std::uint64_t step, bool whole) {
  const bool finite = in_parts(
      x, [&](Part& part, std::span<float> own) { return run(part, own, step, whole); });
  ++totals_.steps;
  totals_.not_finite += finite ? 0 : 1;
  return finite;
}

bool Plan::settle(std::span<float> x) {
  const bool finite = in_parts(x, [&](Part& part, std::span<float> own) {
    const StepTrace trace = part.bucket->average_residuals(own);
    count(trace);
    return trace.finite;
  });
  if (finite)
    for (Part& part : parts_) part.bucket->clear_residual();
  return finite;
}

std::vector<std::int64_t> Plan::settled() const {
  std::vector<std::int64_t> positions;
  for (const Part& part : parts_) {
    const auto list = part.bucket->settled();
    std::vector<std::uint32_t> own(list.begin(), list.end());
    std::sort(own.begin(), own.end());
    auto next = own.begin();
    std::size_t lifted_to = 0;
    for (const Piece& piece : part.pieces) {
      const std::size_t start = part.lifted.empty() ? piece.offset : lifted_to;
      lifted_to += piece.size;
      next = std::lower_bound(next, own.end(), start);
      for (; next != own.end() && *next < start + piece.size; ++next)
        positions.push_back(static_cast<std::int64_t>(piece.offset + (*next - start)));
    }
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

bool Plan::run(Part& part, std::span<float> own, std::uint64_t step, bool whole) {
  if (rollback_) {
    part.before.values.clear();
    part.bucket->save(part.before);
  }
  const double density = whole ? 1 : part.schedule->density(step);
  // All of the bucket, in which other parts' tensors may be, is more than all of the part.
  const std::uint64_t k = density >= 1 ? own.size() : coordinates_for(part.size, density);
  engine::Bucket& bucket = whole && part.whole ? *part.whole : *part.bucket;
  const StepTrace trace = bucket.step(own, k, own, 1, density);
  part.finite = trace.finite;
  totals_.coordinates += part.size;
  totals_.wanted += std::min<std::uint64_t>(trace.k_wanted, part.size);
  totals_.agreed += std::min<std::uint64_t>(trace.count, part.size);
  count(trace);
  return trace.finite;
}

void Plan::count(const StepTrace& trace) {
  totals_.sent_bytes += trace.sent_bytes;
  totals_.sent_messages += trace.sent_messages;
  totals_.select_seconds += trace.select_seconds;
  totals_.wait_seconds += trace.wait_seconds;
  totals_.seconds += trace.seconds;
}

void Plan::roll_back() {
  for (Part& part : parts_)
    if (part.finite) part.bucket->load(part.before);
}

void Plan::save(State& state) {
  for (Part& part : parts_) part.bucket->save(state);
  std::erase_if(state.values, [](const auto& entry) {
    return entry.first.starts_with(kElsewhere) &&
           std::holds_alternative<std::vector<float>>(entry.second);
  });
}

void Plan::load(const State& state) {
  for (Part& part : parts_) part.bucket->load(state);
}

}  // namespace topknot::python
