// SPDX-License-Identifier: Apache-2.0
//
// The machine's file system. Calls that a signal interrupted are repeated; those that failed are
// not.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "store/files.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

[[noreturn]] void refuse(const char* call, const std::string& path, int error) {
  throw StorageError(std::string(call) + " of " + path +
                     " was refused: " + std::generic_category().message(error) + ".");
}

// Repeats the call for as long as signals interrupt it.
template <typename Call>
auto insist(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(insist([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class DiskFile final : public NewFile {
 public:
  explicit DiskFile(const std::string& path)
      : path_(path), file_(path, O_WRONLY | O_CREAT | O_EXCL) {
    if (file_.get() < 0) refuse("Creation", path_, errno);
  }

  // The file keeps its length, so that one cut short by a crash is seen to be.
  void reserve(std::uint64_t bytes) override {
    if (bytes == 0) return;
    const int result = insist([&] {
      return ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
    });
    if (result < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
      refuse("Reserving the room", path_, errno);
  }

  void write(std::span<const std::byte> bytes) override {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    while (!bytes.empty()) {
      const ssize_t written = insist([&] {
        return ::write(file_.get(), bytes.data(), std::min(bytes.size(), kMost));
      });
      if (written < 0) refuse("Writing", path_, errno);
      if (written == 0) refuse("Writing", path_, ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void sync() override {
    if (insist([&] { return ::fsync(file_.get()); }) < 0) refuse("Sync", path_, errno);
  }

  void close() override {
    // Linux has closed the descriptor even if close() reports an error.
    if (::close(file_.release()) < 0 && errno != EINTR) refuse("Closing", path_, errno);
  }

 private:
  const std::string path_;
  Descriptor file_;
};

// Whether the error is about the file rather than about this process.
bool is_the_files_fault(int error) {
  return error == ENOENT || error == ENOTDIR || error == EISDIR || error == ELOOP ||
         error == EIO;
}

[[noreturn]] void cannot_read(const std::string& path, int error) {
  if (!is_the_files_fault(error)) refuse("Reading", path, error);
  throw DataError(path + " cannot be read: " + std::generic_category().message(error) +
                  ".");
}

std::vector<std::byte> read_all(int file, std::size_t size, const std::string& path) {
  std::vector<std::byte> bytes(size);
  for (std::size_t have = 0; have < size;) {
    const ssize_t got =
        insist([&] { return ::read(file, bytes.data() + have, size - have); });
    if (got < 0) cannot_read(path, errno);
    if (got == 0) throw DataError(path + " became shorter while it was read.");
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

class Disk final : public Files {
 public:
  std::unique_ptr<NewFile> create(const std::string& path) override {
    return std::make_unique<DiskFile>(path);
  }

  std::vector<std::byte> read(const std::string& path, std::uint64_t most) override {
    // O_NONBLOCK, because opening a pipe would wait.
    const Descriptor file(path, O_RDONLY | O_NONBLOCK);
    if (file.get() < 0) cannot_read(path, errno);
    struct stat about {};
    if (::fstat(file.get(), &about) < 0) cannot_read(path, errno);
    if (!S_ISREG(about.st_mode)) throw DataError(path + " is not a plain file.");
    const auto size = static_cast<std::uint64_t>(about.st_size);
    if (size > most)
      throw DataError(path + " has " + std::to_string(size) + " bytes where at most " +
                      std::to_string(most) + " are right.");
    return read_all(file.get(), size, path);
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()),
                                                      ::closedir);
    if (!entries && errno == ENOENT) return names;
    if (!entries) refuse("Listing", folder, errno);
    errno = 0;
    while (const dirent* entry = ::readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) refuse("Listing", folder, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  bool make_folder(const std::string& path) override {
    int made = ::mkdir(path.c_str(), 0777);
    if (made < 0 && errno == ENOENT && parent_of(path) != path) {
      const std::string above = parent_of(path);
      if (make_folder(above)) sync_folder(parent_of(above));
      made = ::mkdir(path.c_str(), 0777);
    }
    if (made == 0) return true;
    const int error = errno;
    struct stat about {};
    if (error == EEXIST && ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode))
      return false;
    refuse("Making the folder", path, error);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0)
      refuse("Renaming", from + " to " + to, errno);
  }

  void exchange(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0)
      return;
    if (errno != EINVAL && errno != ENOSYS)
      refuse("Exchange", from + " with " + to, errno);
    const std::string aside = from + ".tmp";
    rename(to, aside);
    rename(from, to);
    rename(aside, from);
  }

  void sync_folder(const std::string& folder) override {
    const Descriptor names(folder, O_RDONLY | O_DIRECTORY);
    if (names.get() < 0) refuse("Sync", folder, errno);
    if (insist([&] { return ::fsync(names.get()); }) < 0) refuse("Sync", folder, errno);
  }

  void remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) < 0) refuse("Removal", path, errno);
  }

  void remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) < 0) refuse("Removal", path, errno);
  }
};

}  // namespace

Files& disk() {
  static Disk only;
  return only;
}

}  // namespace topknot::store
