#pragma once
#include <cstdio>
#include <map>
#include <string>
namespace collab {
struct ZCount {
  std::map<std::string, long> n;
  ~ZCount() {
    for (auto& [k, v] : n) std::fprintf(stderr, "Z %ld %s\n", v, k.c_str());
  }
};
inline ZCount& zcount() {
  static ZCount z;
  return z;
}
inline void z(const std::string& k, long by = 1) {
  zcount().n[k] += by;
}
}  // namespace collab
