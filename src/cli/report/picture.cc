// SPDX-License-Identifier: Apache-2.0
#include "cli/report/picture.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "cli/subprocess.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for what the browser leaves; gone afterwards.
class Profile {
 public:
  Profile() {
    std::string name = (fs::temp_directory_path() / "topknot-page-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw StorageError(
          "No folder can be made in " + fs::temp_directory_path().string() +
          " for the browser's files; set TMPDIR to one that can be written.");
    path_ = name;
  }
  ~Profile() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// As a file address, in which only these characters stand for themselves.
std::string address_of(const fs::path& file) {
  std::string text = "file://";
  for (const char letter : fs::absolute(file).string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                       std::string_view("/-_.~").find(letter) != std::string_view::npos;
    text += plain ? std::string(1, letter)
                  : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return text;
}

SubprocessResult run_chromium(const fs::path& chromium,
                              const std::vector<std::string>& more) {
  const Profile profile;
  // The sandbox needs rights that root in a container does not have; the page is our own.
  std::vector<std::string> words{chromium.string(),
                                 "--headless",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--disable-dev-shm-usage",
                                 "--log-level=3",
                                 "--user-data-dir=" + profile.path().string()};
  words.insert(words.end(), more.begin(), more.end());
  return run_subprocess(words, ErrorOutput::discarded);  // it talks of its own affairs
}

}  // namespace

fs::path find_chromium() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (const fs::path file = fs::path(folder) / name;
          ::access(file.c_str(), X_OK) == 0)
        return file;
  throw ConfigError(
      "Pictures of a page are taken by Chromium, and there is none here: install it "
      "(Debian: "
      "chromium), or leave --png out and open the page in a browser.");
}

std::vector<std::string> plots_in(const fs::path& chromium, const fs::path& page) {
  const std::string document =
      run_chromium(chromium, {"--dump-dom", address_of(page)}).output;
  constexpr std::string_view kAttribute = " data-plot=\"";
  std::vector<std::string> names;
  for (std::size_t at = document.find(kAttribute); at != std::string::npos;
       at = document.find(kAttribute, at)) {
    at += kAttribute.size();
    names.push_back(document.substr(at, document.find('"', at) - at));
  }
  return names;
}

void take_picture(const fs::path& chromium, const fs::path& page,
                  const std::string& fragment, PictureSize size, const fs::path& png) {
  fs::remove(png);
  const SubprocessResult done =
      run_chromium(chromium, {"--hide-scrollbars", "--force-device-scale-factor=2",
                              fmt::format("--window-size={},{}", size.width, size.height),
                              "--screenshot=" + fs::absolute(png).string(),
                              address_of(page) + "#" + fragment});
  if (!fs::exists(png))
    throw StorageError(fmt::format(
        "{} ended with code {} and left no picture at {}: see whether that folder can be "
        "written.",
        chromium.string(), done.exit_code, png.string()));
}

}  // namespace topknot::cli
