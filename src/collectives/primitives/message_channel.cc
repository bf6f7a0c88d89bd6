// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/message_channel.h"

#include <array>
#include <optional>

#include "core/finite.h"
#include "core/hash.h"
#include "core/plant.h"
#include "topknot/error.h"
#include "topknot/layout.h"

namespace topknot::collective {
namespace {

// The fingerprint has four parts of 16 bits, so that a mismatch can say what differs.
// The last is the size of the region and where a dense message begins in the vector.
constexpr std::array<std::string_view, 3> kParts = {"configuration", "n", "k"};

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

/// Tells the link how long a message took to make or to read.
class CodingTime {
 public:
  CodingTime(Transport& link, Phase phase)
      : link_(link), phase_(phase), start_(link.now()) {}
  ~CodingTime() { link_.spent(phase_, link_.now() - start_); }
  CodingTime(const CodingTime&) = delete;
  CodingTime& operator=(const CodingTime&) = delete;

 private:
  Transport& link_;
  const Phase phase_;
  const double start_;
};

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

MessageChannel::MessageChannel(Transport& link, std::string_view owner, Params& params)
    : link_(link),
      everyone_(Subgroup::strided(0, 1, link.size(), link.rank())),
      owner_(owner),
      receives_(at(link.size())) {
  format_.coding = coding_named(
      params.choice("coding", {"auto", "plain", "delta", "rice", "bitmap", "dense"},
                    "how positions travel; auto takes the smallest for each message"));
  format_.values = values_named(
      params.choice("values", {"f32", "bf16", "i8", "i2"},
                    "how values travel; what rounding takes off stays in the residual"));
  configuration_ = owner_ + ":" + params.str();
  config_ = hash16(configuration_);
}

void MessageChannel::begin(std::uint64_t n, std::uint64_t k) {
  check_length(n);
  ++step_;
  phase_ = 0;
  phase_name_ = "start";
  n_ = n;
  k_ = k;
  nonfinite_ = false;
}

void MessageChannel::enter(std::string_view phase) {
  ++phase_;
  phase_name_ = phase;
}

void MessageChannel::report_unless_finite(std::span<const float> x) {
  if (!core::all_finite(x)) nonfinite_ = true;
}

void MessageChannel::code(SparseView pairs, Region region, int to, Message& message,
                          std::vector<float>& error) {
  const CodingTime time(link_, Phase::encode);
  error.resize(format_.values == core::Values::f32 ? 0 : pairs.size());
  core::encode(stamp(rank(), to, region.size()), pairs, region, format_, nonfinite_,
               message.write(), error);
}

void MessageChannel::code_dense(std::span<const float> x, int to, Message& message,
                                std::vector<float>& error, std::uint64_t offset) {
  const CodingTime time(link_, Phase::encode);
  error.resize(format_.values == core::Values::f32 ? 0 : x.size());
  core::encode_dense(stamp(rank(), to, x.size(), offset), x, format_.values, nonfinite_,
                     message.write(), error);
}

void MessageChannel::code_positions(std::span<const std::uint32_t> index, Region region,
                                    int to, Message& message) {
  const CodingTime time(link_, Phase::encode);
  core::encode(stamp(rank(), to, region.size()), {index, {}}, region,
               {format_.coding, core::Values::none}, nonfinite_, message.write(), {});
}

// Words travel as the bits of floats, which are copied, never looked at.
void MessageChannel::code_words(std::span<const std::uint32_t> words, int to,
                                Message& message) {
  core::encode_dense(words_stamp(rank(), to, words.size()), as_floats(words),
                     core::Values::f32, nonfinite_, message.write(), {});
}

void MessageChannel::start_send(int to, const Message& message) {
  sends_.push_back(link_.send_shared(to, message.share()));
}

void MessageChannel::start_receive(int from, Message& message, std::size_t limit) {
  std::vector<std::byte>& bytes = message.write();
  receives_[at(from)].push_back({link_.recv(from, bytes, limit), message});
}

void MessageChannel::finish_receive(int from) {
  require_undamaged(take_received(from), from);
}

void MessageChannel::finish_receive_packet(int from) { take_received(from); }

void MessageChannel::require_undamaged(const Message& message, int from) {
  const auto damage = core::find_damage(message.bytes());
  if (!damage) return;
  // What has no header of ours may be a message of another configuration.
  if (damage->field != "checksum") compare(message, from);
  const std::string way =
      "rank " + std::to_string(from) + " to rank " + std::to_string(rank());
  end(LinkError(from, "a message of " + std::to_string(message.size()) +
                          " bytes was damaged on its way from " + way + ": its " +
                          damage->str() + where() + "."));
}

Message MessageChannel::take_received(int from) {
  std::deque<Receive>& queue = receives_[at(from)];
  const Receive oldest = std::move(queue.front());
  queue.pop_front();
  try {
    wait(oldest.pending);
  } catch (const OverlongError& error) {
    refuse(oldest.message, from, error.what());
  }
  return oldest.message;
}

void MessageChannel::flush_but(std::size_t latest) {
  while (sends_.size() > latest) {
    const Pending oldest = sends_.front();
    sends_.pop_front();
    wait(oldest);
  }
}

void MessageChannel::read(const Message& message, int from, int to, Region region,
                          std::uint64_t most, Sparse& pairs) {
  const CodingTime time(link_, Phase::decode);
  core::Decoded said;
  const auto fault = core::decode(message.bytes(), stamp(from, to, region.size()), region,
                                  most, pairs, said);
  if (fault) refuse(message, from, *fault, region.size());
  if (said.nonfinite && !TOPKNOT_PLANT(nonfinite_flag_unread)) nonfinite_ = true;
}

void MessageChannel::read_back(const Message& message, SparseView mine, Sparse& pairs) {
  pairs.index.assign(mine.index.begin(), mine.index.end());
  pairs.value.resize(mine.size());
  core::read_back(message.bytes(), pairs.value);
}

void MessageChannel::read_dense(const Message& message, int from, int to,
                                std::span<float> x, bool add, std::uint64_t offset) {
  const CodingTime time(link_, Phase::decode);
  core::Decoded said;
  const auto fault = core::decode_dense(message.bytes(),
                                        stamp(from, to, x.size(), offset), x, add, said);
  if (fault) refuse(message, from, *fault, x.size());
  if (said.nonfinite) nonfinite_ = true;
}

void MessageChannel::read_positions(const Message& message, int from, int to,
                                    Region region, std::uint64_t most,
                                    std::vector<std::uint32_t>& index) {
  read(message, from, to, region, most, positions_);
  index.assign(positions_.index.begin(), positions_.index.end());
}

void MessageChannel::read_words(const Message& message, int from, int to,
                                std::span<std::uint32_t> words) {
  core::Decoded said;
  const auto fault =
      core::decode_dense(message.bytes(), words_stamp(from, to, words.size()),
                         as_floats(words), /*add=*/false, said);
  if (fault) refuse(message, from, *fault, words.size());
  if (said.nonfinite) nonfinite_ = true;
}

void MessageChannel::note_nonfinite(const Message& message) {
  if (core::says_nonfinite(message.bytes())) nonfinite_ = true;
}

std::size_t MessageChannel::limit(std::uint64_t most, std::uint64_t size) const {
  return core::message_bound(most, size, format_);
}

// As long as a message with plain positions, which are words, but without them.
std::size_t MessageChannel::dense_length(std::uint64_t size) const {
  return core::message_bound(size, size, {core::Coding::plain, format_.values}) -
         size * sizeof(std::uint32_t);
}

core::Stamp MessageChannel::stamp(int from, int to, std::uint64_t region_size,
                                  std::uint64_t offset) const {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // neighbours share no 16 bits
  core::Stamp stamp;
  stamp.phase = phase_;
  stamp.step = step_;
  stamp.fingerprint =
      static_cast<std::uint64_t>(config_) | static_cast<std::uint64_t>(fold16(n_)) << 16 |
      static_cast<std::uint64_t>(fold16(k_)) << 32 |
      static_cast<std::uint64_t>(fold16(region_size ^ offset * kSpread)) << 48;
  stamp.from = static_cast<std::uint16_t>(from);
  stamp.to = static_cast<std::uint16_t>(to);
  return stamp;
}

core::Stamp MessageChannel::words_stamp(int from, int to, std::uint64_t count) const {
  core::Stamp marked = stamp(from, to, count);
  marked.phase |= kWordsBit;
  return marked;
}

void MessageChannel::refuse(const Message& message, int from, const std::string& why) {
  compare(message, from);
  end(LinkError(from, why + where() + "."));
}

void MessageChannel::refuse(const Message& message, int from, const core::Fault& fault,
                            std::uint64_t region_size) {
  const std::string me = "rank " + std::to_string(rank());
  const std::string peer = "rank " + std::to_string(from);
  compare(message, from);
  if (fault.kind == core::Fault::Kind::garbled)
    end(LinkError(from, peer + " sent " + me + " what cannot be read: " + fault.str() +
                            where() + "."));
  if (fault.field == "fingerprint")
    disagree(from, "region size is " + std::to_string(region_size) + " on " + me +
                       ", another on " + peer);
  disagree(from, std::string(fault.field) + " is " + std::to_string(fault.want) + " on " +
                     me + ", " + std::to_string(fault.got) + " on " + peer);
}

// A message may be longer than expected, or of another form, because its maker runs another
// configuration, and its header says so. In a packet the first header comes after the lengths.
void MessageChannel::compare(const Message& message, int from) {
  const std::span<const std::byte> bytes = message.bytes();
  std::optional<core::Stamp> theirs;
  for (std::size_t head = 0; head <= bytes.size() && !theirs; head += 8)
    theirs = core::stamp_of(bytes.subspan(head));
  if (!theirs) return;
  const int maker = theirs->from < size() ? theirs->from : from;
  const std::uint64_t want = stamp(maker, rank(), 0).fingerprint;
  const std::array<std::string, 3> mine = {configuration_, std::to_string(n_),
                                           std::to_string(k_)};
  std::string differences;
  for (std::size_t part = 0; part < mine.size(); ++part) {
    const auto code = static_cast<std::uint16_t>(theirs->fingerprint >> (16 * part));
    if (code == static_cast<std::uint16_t>(want >> (16 * part))) continue;
    if (!differences.empty()) differences += "; ";
    differences += std::string(kParts[part]) + " is " + mine[part] + " on rank " +
                   std::to_string(rank()) + ", " +
                   (part == 0 ? "another" : std::to_string(code) + " (low bits)") +
                   " on rank " + std::to_string(maker);
  }
  if (!differences.empty() && !TOPKNOT_PLANT(other_k_not_named))
    disagree(maker, differences);
}

void MessageChannel::disagree(int with, const std::string& differences) {
  end(DisagreementError(with, "rank " + std::to_string(with) + " and rank " +
                                  std::to_string(rank()) + " disagree: " + differences +
                                  where() + "."));
}

// Reports the error to the others before they can see that this rank leaves.
template <typename E>
void MessageChannel::end(const E& error) {
  link_.fail(error);
  link_.abandon();
  throw error;
}

void MessageChannel::wait(Pending message) {
  try {
    link_.wait(message);
  } catch (const DisagreementError&) {
    throw;
  } catch (const OverlongError&) {
    throw;
  } catch (const LinkError& error) {
    throw LinkError(error.peer(), error.what() + where() + ".");
  }
}

std::string MessageChannel::where() const {
  return " (" + owner_ + ", step " + std::to_string(step_) + ", phase " + phase_name_ +
         ", at rank " + std::to_string(rank()) + ")";
}

}  // namespace topknot::collective
