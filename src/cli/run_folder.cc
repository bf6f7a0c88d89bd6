// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettlings = "settlings.jsonl";

[[noreturn]] void refuse_file(const fs::path& path, const char* what) {
  throw StorageError(fmt::format("The file {} cannot be {}: {}.", path.string(), what,
                                 std::strerror(errno)));
}

/// A line is JSON whatever the loss is: NaN and infinity become null, invalid UTF-8 becomes ?.
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

fs::path aside(const fs::path& run) { return run / "checkpoints.overwritten"; }

/// Event files are the only ones whose names are not fixed.
void remove_traces_of_the_last_run(const fs::path& folder) {
  for (const char* name : {"steps.jsonl", "epochs.jsonl", kSettlings, "result.json",
                           "trace.json", "traffic.json"})
    fs::remove(folder / name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      fs::remove(entry.path());
}

void require_same_data(const Json& before, const Json& now) {
  const char* const field = "data_fingerprint";
  if (!before.is_object() || !before.contains(field) || !now.contains(field)) return;
  if (before[field] == now[field]) return;
  throw ConfigError(
      "The data set is not the one that the run began with: its files or their number "
      "have "
      "changed. Resume with the same data, or start another run in a folder of its own.");
}

/// Turns an error of the file system into a StorageError.
template <typename Work>
void on_disk(const Work& work) {
  try {
    work();
  } catch (const fs::filesystem_error& error) {
    throw StorageError(fmt::format("The disk refused {}: {}.", error.path1().string(),
                                   error.code().message()));
  }
}

}  // namespace

JsonLines::JsonLines(fs::path path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "ab"), &std::fclose) {
  if (!file_) refuse_file(path_, "made");
}

void JsonLines::add(const Json& line) {
  const std::string text = text_of(line, -1) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0)
    refuse_file(path_, "written");
}

void cut_back(const fs::path& file, std::uint64_t step) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return;
  std::uintmax_t kept = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") ||
        !json["step"].is_number_unsigned() || json["step"].get<std::uint64_t>() >= step)
      break;
    kept += line.size() + 1;
  }
  stream.close();
  fs::resize_file(file, kept);
}

fs::path checkpoints_in(const fs::path& run) { return run / "checkpoints"; }

RunFolder::RunFolder(fs::path path, FolderUse use) : path_(std::move(path)), use_(use) {
  on_disk([&] {
    if (use_ == FolderUse::fresh && fs::exists(path_ / "run.json"))
      throw ConfigError(fmt::format(
          "There is a run in {} already: resume it by --resume, replace it by "
          "--overwrite, or name another --out.",
          path_.string()));
    if (fs::exists(path_) && !fs::is_directory(path_))
      throw ConfigError(
          fmt::format("--out {} is not a folder; name one.", path_.string()));
    made_ = !fs::exists(path_);
    fs::create_directories(path_);
    if (use_ != FolderUse::overwrite || !fs::exists(checkpoints_in(path_))) return;
    fs::remove_all(aside(path_));
    fs::rename(checkpoints_in(path_), aside(path_));
  });
}

RunFolder::~RunFolder() {
  std::error_code none;
  if (begun_) return;
  if (made_) {
    fs::remove_all(path_, none);
    return;
  }
  if (!fs::exists(aside(path_), none)) return;
  fs::remove_all(checkpoints_in(path_), none);
  fs::rename(aside(path_), checkpoints_in(path_), none);
}

StepTotals RunFolder::begin(Json run, std::uint64_t first_step) {
  StepTotals earlier;
  on_disk([&] {
    if (use_ == FolderUse::resume) {
      const Json before = read_json(path_ / "run.json");
      require_same_data(before, run);
      Json resumed = Json::array();
      if (before.is_object() && before.contains("resumed")) resumed = before["resumed"];
      resumed.push_back({{"time", run["started"]}, {"step", first_step}});
      if (before.is_object() && before.contains("started"))
        run["started"] = before["started"];
      run["resumed"] = resumed;
      if (before.is_object() && before.contains("auto") && run["auto"].empty())
        run["auto"] = before["auto"];  // measured when the run began
      cut_back(path_ / "steps.jsonl", first_step);
      cut_back(path_ / "epochs.jsonl", first_step + 1);
      cut_back(path_ / kSettlings, first_step + 1);
      earlier = totals_of(path_ / "steps.jsonl");
      earlier.sent_bytes += totals_of(path_ / kSettlings).sent_bytes;
      fs::remove(path_ / "result.json");
    } else {
      remove_traces_of_the_last_run(path_);
    }
    write("run.json", run);
    begun_ = true;
    fs::remove_all(aside(path_));
  });
  steps_ = std::make_unique<JsonLines>(path_ / "steps.jsonl");
  epochs_ = std::make_unique<JsonLines>(path_ / "epochs.jsonl");
  return earlier;
}

void RunFolder::add_settling(const Json& line) {
  if (!settlings_) settlings_ = std::make_unique<JsonLines>(path_ / kSettlings);
  settlings_->add(line);
}

void RunFolder::write(const std::string& name, const Json& content) const {
  const fs::path part = path_ / (name + ".part");
  std::ofstream stream(part, std::ios::binary);
  stream << text_of(content, 2) << "\n";
  stream.close();
  if (!stream) refuse_file(part, "written");
  on_disk([&] { fs::rename(part, path_ / name); });
}

}  // namespace topknot::cli
