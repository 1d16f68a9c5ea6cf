#pragma once

// Names for the layers of files that give none (Keras 2.0), as Keras makes them: "dense",
// "dense_1". Names that are there are added first.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "layers/config/names.h"

namespace plimsoll::formats {

class LayerNames {
 public:
  void add(const std::string& name) { taken_.insert(name); }
  std::string make(const std::string& class_name) {
    const std::string base = layers::snake_case(class_name);
    while (true) {
      const int64_t count = made_[base]++;
      std::string name = count == 0 ? base : base + "_" + std::to_string(count);
      if (taken_.insert(name).second) return name;
    }
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int64_t> made_;
};

}  // namespace plimsoll::formats
