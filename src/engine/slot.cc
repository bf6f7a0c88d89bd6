// SPDX-License-Identifier: Apache-2.0
#include "engine/slot.h"

#include <algorithm>
#include <utility>

namespace topknot::engine {
namespace {

std::size_t size_of(const DensityGroup& group, const Layout& layout) {
  std::size_t size = 0;
  for (const std::size_t i : group.tensors) size += layout.tensors[i].size();
  return size;
}

void take_out(std::span<float> x, std::span<const Piece> pieces, std::span<float> to) {
  for (const Piece& piece : pieces) {
    const auto from = x.subspan(piece.offset, piece.size);
    std::ranges::copy(from, to.begin());
    std::ranges::fill(from, 0.0F);
    to = to.subspan(piece.size);
  }
}

void put_back(std::span<float> x, std::span<const Piece> pieces,
              std::span<const float> from) {
  for (const Piece& piece : pieces) {
    std::ranges::copy(from.first(piece.size), x.subspan(piece.offset).begin());
    from = from.subspan(piece.size);
  }
}

void take_out(DeviceVector& x, std::span<const Piece> pieces, std::span<float> to) {
  x.take_out(pieces, to);
}

void put_back(DeviceVector& x, std::span<const Piece> pieces,
              std::span<const float> from) {
  x.put_back(pieces, from);
}

// What a bucket in place gets as its vector.
std::span<float> in_place(std::span<float> x) { return x; }
std::span<float> in_place(DeviceVector&) { return {}; }

void add(StepTrace& total, const StepTrace& part) {
  total.k_wanted += part.k_wanted;
  total.k_selected += part.k_selected;
  total.count += part.count;
  total.finite &= part.finite;
  total.sent_bytes += part.sent_bytes;
  total.sent_messages += part.sent_messages;
  total.select_seconds += part.select_seconds;
  total.encode_seconds += part.encode_seconds;
  total.wait_seconds += part.wait_seconds;
  total.decode_seconds += part.decode_seconds;
  total.seconds += part.seconds;
  if (part.threshold > 0 && (total.threshold == 0 || part.threshold < total.threshold))
    total.threshold = part.threshold;
  total.spans.insert(total.spans.end(), part.spans.begin(), part.spans.end());
  if (total.start == 0) total.start = part.start;
}

}  // namespace

void Totals::add(const Totals& other) {
  steps = std::max(steps, other.steps);
  nonfinite += other.nonfinite;
  coordinates += other.coordinates;
  wanted += other.wanted;
  agreed += other.agreed;
  sent_bytes += other.sent_bytes;
  sent_messages += other.sent_messages;
  select_seconds += other.select_seconds;
  wait_seconds += other.wait_seconds;
  seconds += other.seconds;
}

Slot::Slot(Layout layout, const EngineOptions& options, const Densities& densities,
           std::uint64_t coordinates, Transport& link, int& next_channel,
           std::shared_ptr<DeviceVector> device)
    : layout_(std::move(layout)), device_(std::move(device)) {
  check_length(layout_.size());
  std::vector<DensityGroup> groups = densities.group(layout_);
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    return size_of(a, layout_) < size_of(b, layout_);
  });
  const Recipe recipe = Recipe::of(options);
  for (const DensityGroup& group : groups) {
    const bool whole = densities.sends_whole(group);
    const bool in_place = &group == &groups.back() && !(device_ && whole);
    Part part;
    part.in_place = in_place;
    const Layout own = place_tensors(group, part);
    part.schedule =
        make_schedule(recipe.schedule, group.density, options.steps_per_epoch);
    part.bucket = std::make_unique<Bucket>(
        own,
        (whole ? recipe.whole() : recipe)
            .clipped(options.clip, link.size(), part.size, coordinates),
        link, next_channel++, in_place ? device_ : nullptr);
    if (in_place && device_) part.sum.resize(own.size());
    if (options.details) part.bucket->keep_details();
    parts_.push_back(std::move(part));
  }
}

// In place, the tensors of other parts have no name: no state is kept for them.
Layout Slot::place_tensors(const DensityGroup& group, Part& part) const {
  Layout own;
  if (part.in_place) {
    own = layout_;
    for (TensorSlot& tensor : own.tensors) tensor.name.clear();
  }
  for (const std::size_t i : group.tensors) {
    const TensorSlot& tensor = layout_.tensors[i];
    part.pieces.push_back({tensor.offset, tensor.size()});
    if (part.in_place) {
      own.tensors[i].name = tensor.name;
    } else {
      own.tensors.push_back({tensor.name, part.size, tensor.shape});
    }
    part.size += tensor.size();
  }
  if (!part.in_place) part.apart.resize(part.size);
  return own;
}

// Hands each part its own tensors: those of the part in place where they are, in a vector in
// which the others are zeros.
template <typename Vector, typename Exchange>
StepTrace Slot::in_parts(Vector& x, Exchange exchange) {
  for (Part& part : parts_) {
    part.stepped = false;
    if (!part.in_place) take_out(x, part.pieces, part.apart);
  }
  StepTrace total;
  for (Part& part : parts_)
    add(total,
        exchange(part, part.in_place ? in_place(x) : std::span(part.apart), total));
  count(total);
  for (const Part& part : parts_)
    if (!part.in_place) put_back(x, part.pieces, part.apart);
  return total;
}

StepTrace Slot::step(std::span<float> x, std::uint64_t step, double learning_rate) {
  return step_parts(x, step, learning_rate);
}

StepTrace Slot::step_on_device(std::uint64_t step, double learning_rate) {
  return step_parts(*device_, step, learning_rate);
}

template <typename Vector>
StepTrace Slot::step_parts(Vector& x, std::uint64_t step, double learning_rate) {
  const StepTrace trace =
      in_parts(x, [&](Part& part, std::span<float> own, const StepTrace& so_far) {
        return so_far.finite ? step_part(part, own, step, learning_rate) : StepTrace();
      });
  ++totals_.steps;
  totals_.nonfinite += trace.finite ? 0 : 1;
  return trace;
}

StepTrace Slot::step_part(Part& part, std::span<float> own, std::uint64_t step,
                          double learning_rate) {
  const double density = part.schedule->density(step);
  // The bucket in place is longer than its part: all of it is all of the part.
  const std::uint64_t k =
      density >= 1 ? part.bucket->size() : coordinates_for(part.size, density);
  const bool on_device = !part.sum.empty();
  StepTrace trace = part.bucket->step(own, k, on_device ? std::span(part.sum) : own,
                                      learning_rate, density);
  part.stepped = trace.finite;
  if (on_device && trace.finite)
    device_->write(part.bucket->mean_index(), part.bucket->mean());
  trace.k_wanted = std::min<std::uint64_t>(trace.k_wanted, part.size);
  trace.count = std::min<std::uint64_t>(trace.count, part.size);
  totals_.coordinates += part.size;
  totals_.wanted += trace.k_wanted;
  totals_.agreed += trace.count;
  return trace;
}

StepTrace Slot::step_whole(std::span<float> x) {
  const StepTrace trace =
      in_parts(x, [&](Part& part, std::span<float> own, const StepTrace&) {
        totals_.coordinates += part.size;
        totals_.wanted += part.size;
        totals_.agreed += part.size;
        return part.bucket->average(own);
      });
  ++totals_.steps;
  totals_.nonfinite += trace.finite ? 0 : 1;
  return trace;
}

StepTrace Slot::leave_out(std::uint64_t step) {
  StepTrace trace;
  for (Part& part : parts_) {
    part.stepped = false;
    trace.k_wanted += coordinates_for(part.size, part.schedule->density(step));
  }
  trace.finite = false;
  ++totals_.steps;
  ++totals_.nonfinite;
  return trace;
}

void Slot::undo() {
  for (Part& part : parts_) {
    if (part.stepped) part.bucket->undo();
    part.stepped = false;
  }
}

StepTrace Slot::average_residuals(std::span<float> x) {
  return in_parts(x, [](Part& part, std::span<float> own, const StepTrace&) {
    return part.bucket->average_residuals(own);
  });
}

void Slot::clear_residuals() {
  for (Part& part : parts_) part.bucket->clear_residual();
}

std::vector<std::int64_t> Slot::settled() const {
  std::vector<std::int64_t> positions;
  for (const Part& part : parts_) {
    const auto list = part.bucket->settled();
    std::vector<std::uint32_t> own(list.begin(), list.end());
    std::sort(own.begin(), own.end());
    auto next = own.begin();
    std::size_t apart_to = 0;
    for (const Piece& piece : part.pieces) {
      const std::size_t start = part.in_place ? piece.offset : apart_to;
      apart_to += piece.size;
      next = std::lower_bound(next, own.end(), start);
      for (; next != own.end() && *next < start + piece.size; ++next)
        positions.push_back(static_cast<std::int64_t>(piece.offset + (*next - start)));
    }
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

void Slot::count(const StepTrace& trace) {
  totals_.sent_bytes += trace.sent_bytes;
  totals_.sent_messages += trace.sent_messages;
  totals_.select_seconds += trace.select_seconds;
  totals_.wait_seconds += trace.wait_seconds;
  totals_.seconds += trace.seconds;
}

void Slot::save(State& state) {
  for (Part& part : parts_) part.bucket->save(state);
}

void Slot::load(const State& state) {
  for (Part& part : parts_) part.bucket->load(state);
}

std::uint64_t Slot::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.bucket->memory_bytes();
  return bytes;
}

void Slot::add_traffic(Traffic& total) const {
  for (const Part& part : parts_) total.add(part.bucket->traffic());
}

double Slot::residual_squares() const {
  double squares = 0;
  for (const Part& part : parts_)
    for (const float x : part.bucket->residual())
      squares += static_cast<double>(x) * static_cast<double>(x);
  return squares;
}

}  // namespace topknot::engine
