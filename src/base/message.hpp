#pragma once
// What makes a struct a message, or a part of one: the list of its fields. Who encodes and decodes messages includes
// base/frame.hpp, which says what they look like; a header that only names them need not, and compiles faster.
//
//   struct Answer {
//     std::uint64_t epoch = 0;
//     std::vector<std::string> names;
//     MESSAGE_MAP(epoch, names)
//   };

#include <msgpack/adaptor/define_decl.hpp>

#include <cstddef>

/// On the wire a map from the fields' names. `visit(name, field, name, field, …)`.
#define MESSAGE_MAP(...)                          \
  using FieldsByName = void;                      \
  template <class Visitor>                        \
  void visit_fields(const Visitor& visit) {       \
    visit MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__);   \
  }                                               \
  template <class Visitor>                        \
  void visit_fields(const Visitor& visit) const { \
    visit MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__);   \
  }

/// On the wire an array, in this order: for what a message has many of. `visit(field, field, …)`.
#define MESSAGE_ARRAY(...)                        \
  using FieldsByPlace = void;                     \
  template <class Visitor>                        \
  void visit_fields(const Visitor& visit) {       \
    visit(__VA_ARGS__);                           \
  }                                               \
  template <class Visitor>                        \
  void visit_fields(const Visitor& visit) const { \
    visit(__VA_ARGS__);                           \
  }

namespace collab::frame {

inline constexpr std::size_t kFrameBytesMax = std::size_t(1) << 20U;
inline constexpr std::size_t kHeaderBytesMax = std::size_t(64) << 10U;

template <class T>
concept Map = requires {
  typename T::FieldsByName;
};
template <class T>
concept Array = requires {
  typename T::FieldsByPlace;
};

}  // namespace collab::frame
