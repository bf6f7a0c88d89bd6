// SPDX-License-Identifier: Apache-2.0
#include "store/files.h"

#include "core/plant.h"

namespace topknot::store {

std::string parent_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::size_t slash = path.rfind('/', end);
  if (end == std::string::npos || slash == 0) return "/";
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void write_new(Files& files, const std::string& path,
               std::span<const std::span<const std::byte>> pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  const std::unique_ptr<NewFile> file = files.create(path);
  file->reserve(bytes);
  for (const auto& piece : pieces) file->write(piece);
  if (!TOPKNOT_PLANT(file_not_synced)) file->sync();
  file->close();
}

void remove_with_files(Files& files, const std::string& folder) {
  for (const std::string& name : files.list(folder))
    files.remove_file(folder + "/" + name);
  files.remove_folder(folder);
}

}  // namespace topknot::store
