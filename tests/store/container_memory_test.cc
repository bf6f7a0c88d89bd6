// SPDX-License-Identifier: Apache-2.0
//
// How much memory reading takes, for the files that are dearest to read: every allocation
// of this program is counted.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "store/container.h"
#include "store/container_header.h"
#include "topknot/error.h"

namespace {

std::atomic<std::size_t> in_use = 0;
std::atomic<std::size_t> most = 0;

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = in_use += malloc_usable_size(memory);
  most = std::max(most.load(), now);
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) in_use -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace topknot::store {
namespace {

constexpr std::size_t kData = 6 << 20;
constexpr std::size_t kHeader = 1'572'000;  // nearly the longest there may be

std::string quoted(std::string text) {
  text.insert(text.begin(), '"');
  text.push_back('"');
  return text;
}

std::string entries(const std::string& shape) {
  std::string text = "{";
  for (int i = 0; text.size() < kHeader - 1000; ++i)
    text += quoted(std::to_string(i)) + R"(:{"dtype":"U8","shape":)" + shape +
            R"(,"data_offsets":[0,0]},)";
  return text + R"("x":{"dtype":"U8","shape":[6291456],"data_offsets":[0,6291456]}})";
}

std::string metadata(std::size_t value) {
  std::string text = R"({"__metadata__":{)";
  for (int i = 0; text.size() + value < kHeader - 1000; ++i)
    text += quoted(std::to_string(i)) + ":" + quoted(std::string(value, 'x')) + ",";
  return text + R"("x":""}})";
}

static_assert(kHeader <= longest_header(8 + kHeader + kData) &&
              kHeader + 1000 > longest_header(8 + kHeader + kData));

TEST(ContainerMemory, IsTwiceTheFileAndEightMegabytes) {
  for (const std::string& header :
       {entries("[0]"), entries("[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"), entries("[1]"),
        metadata(0), metadata(100), metadata(kHeader - 3000), std::string(kHeader, '['),
        "{\"" + std::string(kHeader - 5, 'n')}) {
    std::vector<std::byte> file(8 + kHeader + kData, std::byte{' '});
    for (std::size_t i = 0; i < 8; ++i) file[i] = std::byte(kHeader >> (8 * i));
    std::ranges::transform(header, file.begin() + 8, [](char c) { return std::byte(c); });
    const std::size_t size = file.size();
    const std::size_t before = in_use - size;
    most = in_use.load();
    bool reads = true;
    try {
      Container::parse(std::move(file), "f");
    } catch (const DataError&) {
      reads = false;
    }
    EXPECT_LE(most - before, 2 * size + (8 << 20)) << header.substr(0, 60);
    EXPECT_EQ(reads, header.starts_with("{\"0\"") && header.find("[1]") > kHeader);
  }
}

}  // namespace
}  // namespace topknot::store
