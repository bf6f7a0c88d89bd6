// SPDX-License-Identifier: Apache-2.0
#include "cli/flight_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

using What = FlightRecord::What;

std::atomic<const FlightDumps*> current = nullptr;
static_assert(std::atomic<const FlightDumps*>::is_always_lock_free);

std::string_view name_of(What what) {
  switch (what) {
    case What::send:
      return "send";
    case What::wait_to_send:
      return "wait to send";
    case What::wait:
      return "wait";
    case What::received:
      return "received";
  }
  return "unknown";
}

/// Text in memory of its own, which cuts what is too long.
class Text {
 public:
  Text& operator<<(std::string_view words) noexcept {
    const std::size_t length = std::min(words.size(), bytes_.size() - size_);
    std::copy_n(words.begin(), length, bytes_.data() + size_);
    size_ += length;
    return *this;
  }
  template <std::integral Number>
  Text& operator<<(Number number) noexcept {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    return *this << std::string_view(digits.data(), end.ptr);
  }
  std::string_view view() const noexcept { return {bytes_.data(), size_}; }

 private:
  // A line takes less than 256 bytes, but for an error's sentence.
  std::array<char, 256 * FlightRecord::kLength + 4096> bytes_;
  std::size_t size_ = 0;
};

std::string error_member(const std::string& sentence) {
  return R"(,"error":)" +
         nlohmann::json(sentence.substr(0, 2000))
             .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void write_all(const char* file, std::string_view text) noexcept {
  const int out = ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) return;
  while (!text.empty()) {
    const ssize_t written = ::write(out, text.data(), text.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  ::close(out);
}

}  // namespace

std::string flight_file(const std::string& folder, int rank) {
  return folder + "/flight-" + std::to_string(rank) + ".jsonl";
}

void write_flight(const char* file, int rank, int ranks, const FlightRecord& record,
                  std::string_view members) noexcept {
  FlightRecord::Operations operations;
  const std::size_t count = record.read(operations);
  Text text;
  text << R"({"rank":)" << rank << R"(,"ranks":)" << ranks << R"(,"us":)"
       << FlightRecord::now() << members << "}\n";
  for (std::size_t i = 0; i < count; ++i) {
    const FlightRecord::Operation& one = operations[i];
    text << R"({"what":")" << name_of(one.what) << R"(","peer":)" << one.peer
         << R"(,"channel":)" << one.channel << R"(,"step":)" << one.step << R"(,"phase":)"
         << one.phase << R"(,"fingerprint":)" << one.fingerprint << R"(,"bytes":)"
         << one.bytes << R"(,"us":)" << one.microseconds << "}\n";
  }
  write_all(file, text.view());
}

FlightDumps::FlightDumps(std::string folder, int first, int count, int ranks)
    : folder_(std::move(folder)), first_(first), ranks_(ranks) {
  if (folder_.empty()) return;
  for (int rank = first; rank < first + count; ++rank) {
    own_.push_back(std::make_unique<Rank>());
    own_.back()->rank = rank;
    own_.back()->file = flight_file(folder_, rank);
    std::error_code none;
    std::filesystem::remove(own_.back()->file, none);
  }
  current = this;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, nullptr);
}

FlightDumps::~FlightDumps() {
  if (folder_.empty()) return;
  ::signal(SIGUSR2, SIG_IGN);  // one that is on its way is not to end the process
  current = nullptr;
}

Transport& FlightDumps::stand_before(Transport& link) {
  if (folder_.empty()) return link;
  Rank& own = *own_.at(static_cast<std::size_t>(link.rank() - first_));
  own.link = make_recorded(link, own.record);
  return *own.link;
}

void FlightDumps::failed(int rank, const std::exception_ptr& error) noexcept {
  if (folder_.empty()) return;
  std::string members;
  try {
    std::rethrow_exception(error);
  } catch (const LinkError& what) {
    members = R"(,"peer":)" + std::to_string(what.peer()) + error_member(what.what());
  } catch (const ContractError& what) {
    members = error_member(what.what());
  } catch (...) {
    return;
  }
  const Rank& own = *own_[static_cast<std::size_t>(rank - first_)];
  ::mkdir(folder_.c_str(), 0777);
  write_flight(own.file.c_str(), rank, ranks_, own.record, members);
}

void FlightDumps::on_signal(int) {
  const int saved = errno;
  if (const FlightDumps* dumps = current) dumps->dump_all();
  errno = saved;
}

void FlightDumps::dump_all() const noexcept {
  ::mkdir(folder_.c_str(), 0777);
  for (const auto& own : own_)
    write_flight(own->file.c_str(), own->rank, ranks_, own->record, {});
}

}  // namespace topknot::cli
