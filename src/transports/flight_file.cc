// SPDX-License-Identifier: Apache-2.0
#include "transports/flight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <optional>

#include "topknot/error.h"

namespace topknot {
namespace {

using What = FlightRecord::What;

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

/// As JSON has it. What is not printable ASCII becomes a question mark.
std::string json_text(std::string_view sentence) {
  std::string text = "\"";
  for (const char c : sentence.substr(0, 2000)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text + '"';
}

std::string error_member(const std::string& sentence) {
  return R"(,"error":)" + json_text(sentence);
}

/// None where the error is worth no dump.
std::optional<std::string> flight_members(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const LinkError& what) {
    return R"(,"peer":)" + std::to_string(what.peer()) + error_member(what.what());
  } catch (const ContractError& what) {
    return error_member(what.what());
  } catch (...) {
    return std::nullopt;
  }
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

void dump_flight(const std::string& folder, int rank, int ranks,
                 const FlightRecord& record, const std::exception_ptr& error) noexcept {
  const std::optional<std::string> members = flight_members(error);
  if (!members) return;
  ::mkdir(folder.c_str(), 0777);
  write_flight(flight_file(folder, rank).c_str(), rank, ranks, record, *members);
}

}  // namespace topknot
