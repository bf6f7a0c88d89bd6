// SPDX-License-Identifier: Apache-2.0
#include "cli/flight_merge.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMostRanks = 1 << 16;

FlightOperation operation_of(const Json& line) {
  FlightOperation made;
  made.what = line.at("what").get<std::string>();
  made.peer = line.at("peer").get<int>();
  made.channel = line.at("channel").get<std::uint32_t>();
  made.step = line.at("step").get<std::uint32_t>();
  made.phase = line.at("phase").get<std::uint32_t>();
  made.fingerprint = line.at("fingerprint").get<std::uint64_t>();
  made.bytes = line.at("bytes").get<std::uint64_t>();
  made.microseconds = line.at("us").get<std::uint64_t>();
  return made;
}

FlightDump head_of(const Json& line) {
  FlightDump made;
  made.rank = line.at("rank").get<int>();
  made.ranks = line.at("ranks").get<int>();
  made.microseconds = line.at("us").get<std::uint64_t>();
  made.error = line.value("error", "");
  made.blames = line.value("peer", -1);
  if (made.ranks < 1 || made.ranks > kMostRanks || made.rank < 0 ||
      made.rank >= made.ranks)
    throw DataError("such a rank cannot be");
  return made;
}

/// A dump as far as it can be read; nothing where not even its first line can.
std::optional<FlightDump> read_dump(const fs::path& file,
                                    std::vector<std::string>& notes) {
  std::ifstream in(file);
  std::optional<FlightDump> dump;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    try {
      const Json read = Json::parse(line);
      if (!dump) {
        dump = head_of(read);
      } else {
        dump->operations.push_back(operation_of(read));
      }
    } catch (
        const std::exception&) {  // of the parser, or of another type than it should have
      notes.push_back(file.filename().string() + " is torn: line " +
                      std::to_string(number) + " cannot be read, and is left out" +
                      (dump ? "." : " with all that follows."));
      if (!dump) return dump;
    }
  }
  if (!dump) notes.push_back(file.filename().string() + " is empty.");
  return dump;
}

// ---- words

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

/// "rank 0", "ranks 0 and 1", "ranks 0, 1 and 3".
std::string rank_names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string place_of(const FlightOperation& operation) {
  if (operation.step == 0)
    return "outside any collective (channel " + std::to_string(operation.channel) + ")";
  return "in step " + std::to_string(operation.step) + ", phase " +
         std::to_string(operation.phase) + " of channel " +
         std::to_string(operation.channel);
}

// ---- what differs

/// What a message's header says of its maker's configuration.
constexpr std::array<std::pair<const char*, int>, 3> kParts = {
    {{"the configuration", 0}, {"n", 16}, {"k", 32}}};

/// By rank: what its messages say of a part of the configuration. A collective in another has its own,
/// so there may be several.
using Settings = std::map<int, std::set<std::uint64_t>>;

/// Whether two ranks have no setting in common.
bool differ(const Settings& settings) {
  for (const auto& [rank, mine] : settings)
    for (const auto& [other, theirs] : settings)
      if (std::ranges::none_of(mine,
                               [&theirs](auto one) { return theirs.contains(one); }))
        return true;
  return false;
}

/// "k is 50 (low bits) on rank 0, 200 (low bits) on rank 1".
std::string list_of(const char* name, const Settings& settings, bool has_value) {
  std::map<std::uint64_t, std::vector<int>> groups;
  for (const auto& [rank, values] : settings) groups[*values.begin()].push_back(rank);
  std::string text = name;
  bool first = true;
  for (const auto& [value, ranks] : groups) {
    text += first ? " is " : ", ";
    text += has_value ? std::to_string(value) + " (low bits)" : first ? "one" : "another";
    text += " on " + rank_names(ranks);
    first = false;
  }
  return text;
}

/// The first step, channel by channel, in which ranks have sent messages of different
/// configurations.
std::string different_settings(const Flight& flight) {
  using Place = std::tuple<std::uint32_t, std::uint32_t>;  // step, channel
  std::map<Place, std::array<Settings, kParts.size()>> sent;
  for (const auto& [rank, dump] : flight.dumps)
    for (const FlightOperation& one : dump.operations)
      if (one.what == "send" && one.fingerprint != 0)
        for (std::size_t part = 0; part < kParts.size(); ++part)
          sent[{one.step, one.channel}][part][rank].insert(
              one.fingerprint >> kParts[part].second & 0xFFFF);
  for (const auto& [place, parts] : sent)
    for (std::size_t part = 0; part < kParts.size(); ++part)
      if (differ(parts[part]))
        return "The ranks diverge in step " + std::to_string(std::get<0>(place)) +
               " of channel " + std::to_string(std::get<1>(place)) + ": " +
               list_of(kParts[part].first, parts[part], kParts[part].second != 0) + ".";
  return "";
}

/// The rank that the errors call lost: none where they say that ranks wait in a circle. It may have
/// woken up since, and waits then for those that have left.
std::optional<int> lost_rank(const Flight& flight) {
  for (const auto& [rank, dump] : flight.dumps)
    if (dump.blames >= 0 && dump.error.find("wait for each other") == std::string::npos)
      return dump.blames;
  return std::nullopt;
}

/// Where the ranks' waits lead to, or a circle.
struct End {
  int rank;
  std::vector<int> path;  // from the rank that was asked
  bool circle;
};

End follow(const Flight& flight, int from) {
  End end{from, {from}, false};
  const std::optional<int> lost = lost_rank(flight);
  for (;;) {
    if (end.rank == lost) return end;
    const auto found = flight.dumps.find(end.rank);
    const FlightOperation* waits =
        found == flight.dumps.end() ? nullptr : found->second.waits();
    if (waits == nullptr) return end;
    end.rank = waits->peer;
    end.circle = std::ranges::find(end.path, end.rank) != end.path.end();
    end.path.push_back(end.rank);
    if (end.circle) return end;
  }
}

std::string waiting_sentence(const Flight& flight) {
  std::map<int, std::vector<int>> leads_to;  // the rank at the end, and who waits for it
  for (const auto& [rank, dump] : flight.dumps) {
    const End end = follow(flight, rank);
    if (end.circle) {
      std::string text = "The ranks wait for each other in a circle: " + rank_name(rank);
      for (std::size_t i = 1; i < end.path.size(); ++i)
        text += (i == 1 ? " waits for " : ", which waits for ") + rank_name(end.path[i]);
      return text + ".";
    }
    if (end.rank != rank) leads_to[end.rank].push_back(rank);
  }
  if (leads_to.empty()) return "";
  const auto most = std::ranges::max_element(
      leads_to, {}, [](const auto& one) { return one.second.size(); });
  const auto dump = flight.dumps.find(most->first);
  std::string text = "All waits of " + rank_names(most->second) + " lead to " +
                     rank_name(most->first) + ", which ";
  if (dump == flight.dumps.end()) return text + "left no dump: it stopped or died.";
  text += lost_rank(flight) == most->first ? "was silent when they gave up"
                                           : "waits for nobody";
  if (!dump->second.operations.empty())
    text += ": it was last " + place_of(dump->second.operations.back());
  return text + ".";
}

}  // namespace

const FlightOperation* FlightDump::waits() const {
  constexpr std::uint64_t kSecond = 1000000;
  if (operations.empty() || !operations.back().what.starts_with("wait")) return nullptr;
  const FlightOperation& last = operations.back();
  return error.empty() && microseconds < last.microseconds + kSecond ? nullptr : &last;
}

Flight read_flight(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw DataError("There is no folder " + folder.string() + ".");
  Flight flight;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-") && name.ends_with(".jsonl"))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<FlightDump> found;
  for (const fs::path& file : files)
    if (auto dump = read_dump(file, flight.notes)) found.push_back(std::move(*dump));
  if (found.empty())
    throw DataError("There is no dump that can be read in " + folder.string() +
                    ": ranks leave flight-RANK.jsonl there when a run with `--out " +
                    folder.string() + "` fails, or when they get SIGUSR2.");
  const auto latest = std::ranges::max_element(found, {}, &FlightDump::microseconds);
  flight.ranks = latest->ranks;
  for (FlightDump& dump : found) {
    if (dump.ranks == flight.ranks) {
      const int rank = dump.rank;
      flight.dumps[rank] = std::move(dump);
    } else {
      flight.notes.push_back("The dump of " + rank_name(dump.rank) + " is of a job of " +
                             std::to_string(dump.ranks) + " ranks, and is left out.");
    }
  }
  return flight;
}

std::string first_divergence(const Flight& flight) {
  if (std::string text = different_settings(flight); !text.empty()) return text;
  if (std::string text = waiting_sentence(flight); !text.empty()) return text;
  return "No rank waits, and all that were dumped did the same.";
}

}  // namespace topknot::cli
