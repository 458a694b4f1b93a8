// Runs a fuzz target on the files of its corpus, under any compiler: `replay TARGET FOLDER`.
#include "support.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <vector>

namespace {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> all;
  return all;
}

}  // namespace

bool collab::fuzz::add_target(std::string_view name, Target take_input) {
  return targets().emplace(name, take_input).second;
}

int main(int argc, char** argv) {
  const auto target = argc == 3 ? targets().find(argv[1]) : targets().end();
  if (target == targets().end() || !std::filesystem::is_directory(argv[2])) {
    std::cerr << "usage: " << argv[0] << " TARGET FOLDER\n";
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::cerr << file.filename().string() << '\n';  // the last name is the one that fails
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    target->second(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  return files.empty() ? 1 : 0;
}
