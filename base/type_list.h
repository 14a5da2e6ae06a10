// TypeList: types as a list, such as all tasks.
#pragma once

namespace engram {

template <class... Types>
struct TypeList {
  // Calls function.operator()<Type>() for each.
  template <class Function>
  static void for_each(Function function) {
    (function.template operator()<Types>(), ...);
  }
};

}  // namespace engram
