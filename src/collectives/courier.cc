// SPDX-License-Identifier: Apache-2.0
#include "collectives/courier.h"

#include <array>

#include "core/hash.h"
#include "core/select.h"
#include "topknot/error.h"
#include "topknot/layout.h"

namespace topknot::collective {
namespace {

// The fingerprint has four parts of 16 bits, so that a mismatch can say what differs.
constexpr std::array<std::string_view, 4> kParts = {"configuration", "n", "k",
                                                    "region size"};

std::uint16_t fold16(std::uint64_t x) {
  return static_cast<std::uint16_t>(x ^ (x >> 16) ^ (x >> 32) ^ (x >> 48));
}

std::uint16_t hash16(std::string_view text) {
  return fold16(core::hash(std::as_bytes(std::span(text))));
}

std::span<const float> as_floats(std::span<const std::uint32_t> words) {
  return {reinterpret_cast<const float*>(words.data()), words.size()};
}
std::span<float> as_floats(std::span<std::uint32_t> words) {
  return {reinterpret_cast<float*>(words.data()), words.size()};
}

template <typename T>
std::span<T> part_of(std::span<T> x, Region region) {
  return x.empty() ? x : x.subspan(region.begin, region.size());
}

core::Coding coding_named(const std::string& wanted) {
  for (const core::Coding coding :
       {core::Coding::plain, core::Coding::delta, core::Coding::rice,
        core::Coding::bitmap, core::Coding::dense})
    if (core::name(coding) == wanted) return coding;
  return core::Coding::automatic;
}

core::Values values_named(const std::string& wanted) {
  for (const core::Values values :
       {core::Values::bf16, core::Values::i8, core::Values::i2})
    if (core::name(values) == wanted) return values;
  return core::Values::f32;
}

}  // namespace

Courier::Courier(Transport& link, std::string_view owner, Params& params)
    : link_(link), owner_(owner), receives_(static_cast<std::size_t>(link.size())) {
  format_.coding = coding_named(
      params.choice("coding", {"auto", "plain", "delta", "rice", "bitmap", "dense"},
                    "how positions travel; auto takes the smallest for each message"));
  format_.values = values_named(
      params.choice("values", {"f32", "bf16", "i8", "i2"},
                    "how values travel; what rounding takes off stays owed"));
  config_ = hash16(owner_ + ":" + params.str());
}

int Courier::neighbour(int distance) const noexcept {
  const int ranks = size();
  return ((rank() + distance) % ranks + ranks) % ranks;
}

void Courier::begin(std::uint64_t n, std::uint64_t k) {
  check_length(n);
  ++step_;
  phase_ = 0;
  phase_name_ = "start";
  n_ = n;
  k_ = k;
  sick_ = false;
  folded_ = false;
}

void Courier::enter(std::string_view phase) {
  ++phase_;
  phase_name_ = phase;
}

void Courier::select(Compressor& pick, std::span<float> acc, std::span<float> grad,
                     std::size_t k, Sparse& out) {
  folded_ = pick.select(acc, grad, k, out);
  if (!folded_) sick_ = true;
}

// The parts go in order, so a part that is not finite has only those before it to undo.
void Courier::select_inside(Compressor& pick, Region region, std::span<float> acc,
                            std::span<float> grad, std::size_t k, Sparse& out) {
  const Region before{0, region.begin};
  const Region behind{region.end, acc.size()};
  std::uint64_t done = 0;
  out.clear();
  folded_ = core::fold(part_of(acc, before), part_of(grad, before));
  if (folded_) {
    done = before.end;
    folded_ = pick.select(part_of(acc, region), part_of(grad, region), k, out);
  }
  if (folded_) {
    done = region.end;
    folded_ = core::fold(part_of(acc, behind), part_of(grad, behind));
  }
  if (!folded_) {
    core::unfold(part_of(acc, {0, done}), part_of(grad, {0, done}));
    out.clear();
    sick_ = true;
  }
  for (std::uint32_t& position : out.index)
    position += static_cast<std::uint32_t>(region.begin);
}

void Courier::fold(std::span<float> acc, std::span<float> grad) {
  folded_ = core::fold(acc, grad);
  if (!folded_) sick_ = true;
}

Reduced Courier::undo(std::span<float> acc, std::span<const float> grad) {
  if (folded_) core::unfold(acc, grad);
  folded_ = false;
  return {.count = 0, .finite = false, .index = {}, .paid = {}};
}

void Courier::code(SparseView pairs, Region region, int to, Message& message,
                   std::vector<float>& error) {
  error.resize(format_.values == core::Values::f32 ? 0 : pairs.size());
  core::encode(stamp(rank(), to, region.size()), pairs, region, format_, sick_, message,
               error);
}

void Courier::code_dense(std::span<const float> x, int to, Message& message,
                         std::vector<float>& error) {
  error.resize(format_.values == core::Values::f32 ? 0 : x.size());
  core::encode_dense(stamp(rank(), to, x.size()), x, format_.values, sick_, message,
                     error);
}

void Courier::code_positions(std::span<const std::uint32_t> index, Region region, int to,
                             Message& message) {
  core::encode(stamp(rank(), to, region.size()), {index, {}}, region,
               {format_.coding, core::Values::none}, sick_, message, {});
}

// Words travel as the bits of floats, which are copied, never looked at.
void Courier::code_words(std::span<const std::uint32_t> words, int to, Message& message) {
  core::encode_dense(words_stamp(rank(), to, words.size()), as_floats(words),
                     core::Values::f32, sick_, message, {});
}

void Courier::start_send(int to, const Message& message) {
  sends_.push_back(link_.send(to, message));
}

void Courier::start_receive(int from, Message& message, std::size_t limit) {
  receives_[static_cast<std::size_t>(from)].push_back(link_.recv(from, message, limit));
}

void Courier::finish_receive(int from) {
  std::deque<Pending>& queue = receives_[static_cast<std::size_t>(from)];
  const Pending oldest = queue.front();
  queue.pop_front();
  wait(oldest);
}

void Courier::flush_but(std::size_t latest) {
  while (sends_.size() > latest) {
    const Pending oldest = sends_.front();
    sends_.pop_front();
    wait(oldest);
  }
}

void Courier::read(const Message& message, int from, int to, Region region,
                   std::uint64_t most, Sparse& pairs) {
  core::Decoded said;
  const auto fault =
      core::decode(message, stamp(from, to, region.size()), region, most, pairs, said);
  if (fault) refuse(*fault, from, region.size());
  if (said.sick) sick_ = true;
}

void Courier::read_dense(const Message& message, int from, int to, std::span<float> x,
                         bool add) {
  core::Decoded said;
  const auto fault = core::decode_dense(message, stamp(from, to, x.size()), x, add, said);
  if (fault) refuse(*fault, from, x.size());
  if (said.sick) sick_ = true;
}

void Courier::read_positions(const Message& message, int from, int to, Region region,
                             std::uint64_t most, std::vector<std::uint32_t>& index) {
  read(message, from, to, region, most, positions_);
  index.assign(positions_.index.begin(), positions_.index.end());
}

void Courier::read_words(const Message& message, int from, int to,
                         std::span<std::uint32_t> words) {
  core::Decoded said;
  const auto fault = core::decode_dense(message, words_stamp(from, to, words.size()),
                                        as_floats(words), /*add=*/false, said);
  if (fault) refuse(*fault, from, words.size());
  if (said.sick) sick_ = true;
}

void Courier::note_health(const Message& message) {
  if (core::says_sick(message)) sick_ = true;
}

std::size_t Courier::limit(std::uint64_t most, std::uint64_t size) const {
  return core::message_bound(most, size, format_);
}

// As long as a message with plain positions, which are words, but without them.
std::size_t Courier::dense_length(std::uint64_t size) const {
  return core::message_bound(size, size, {core::Coding::plain, format_.values}) -
         size * sizeof(std::uint32_t);
}

core::Stamp Courier::stamp(int from, int to, std::uint64_t region_size) const {
  core::Stamp stamp;
  stamp.phase = phase_;
  stamp.step = step_;
  stamp.fingerprint = static_cast<std::uint64_t>(config_) |
                      static_cast<std::uint64_t>(fold16(n_)) << 16 |
                      static_cast<std::uint64_t>(fold16(k_)) << 32 |
                      static_cast<std::uint64_t>(fold16(region_size)) << 48;
  stamp.from = static_cast<std::uint16_t>(from);
  stamp.to = static_cast<std::uint16_t>(to);
  return stamp;
}

core::Stamp Courier::words_stamp(int from, int to, std::uint64_t count) const {
  core::Stamp marked = stamp(from, to, count);
  marked.phase |= kWordsBit;
  return marked;
}

void Courier::refuse(const core::Fault& fault, int from, std::uint64_t region_size) {
  link_.abandon();
  const std::string me = "rank " + std::to_string(rank());
  const std::string peer = "rank " + std::to_string(from);
  if (fault.kind == core::Fault::Kind::garbled)
    throw LinkError(from, peer + " sent " + me + " what cannot be read: " + fault.str() +
                              where() + ".");
  if (fault.field != "fingerprint")
    throw DisagreementError(
        from, peer + " and " + me + " disagree: " + fault.str() + where() + ".");
  const std::array<std::uint64_t, 4> mine = {config_, n_, k_, region_size};
  std::string differs;
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    const auto got = static_cast<std::uint16_t>(fault.got >> (16 * part));
    const auto want = static_cast<std::uint16_t>(fault.want >> (16 * part));
    if (got == want) continue;
    if (!differs.empty()) differs += ", ";
    differs += std::string(kParts[part]) + " is " + std::to_string(mine[part]) + " on " +
               me + ", " + std::to_string(got) + " (low bits) on " + peer;
  }
  throw DisagreementError(from,
                          peer + " and " + me + " disagree: " + differs + where() + ".");
}

void Courier::wait(Pending message) {
  try {
    link_.wait(message);
  } catch (const DisagreementError&) {
    throw;
  } catch (const LinkError& error) {
    throw LinkError(error.peer(), error.what() + where() + ".");
  }
}

std::string Courier::where() const {
  return " (" + owner_ + ", step " + std::to_string(step_) + ", phase " + phase_name_ +
         ", at rank " + std::to_string(rank()) + ")";
}

}  // namespace topknot::collective
