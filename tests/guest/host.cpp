// A program that has a oneDNN of its own, loaded for everybody to see, and trains beside it.
//
//   host [LIBRARY]     trains, forks, trains again; prints the weights' bits
//
// With LIBRARY it checks too that neither of the two has seen the other.

#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "guest/small_training.h"

namespace {

// The host's library, where it has one.
class Vendor {
 public:
  explicit Vendor(const char* path) : library_(::dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
    if (library_ == nullptr) std::fprintf(stderr, "host: %s\n", ::dlerror());
  }
  bool loaded() const { return library_ != nullptr; }
  bool set_capacity(int capacity) const {
    return call<int (*)(int)>("dnnl_set_primitive_cache_capacity")(capacity) == 0;
  }
  int capacity() const {
    int capacity = -1;
    call<int (*)(int*)>("dnnl_get_primitive_cache_capacity")(&capacity);
    return capacity;
  }

 private:
  template <typename Function>
  Function call(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;
};

int count_vendors() {
  int count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* found) {
        if (std::strstr(object->dlpi_name, "dnnl") != nullptr) ++*static_cast<int*>(found);
        return 0;
      },
      &count);
  return count;
}

void print_weights(plimsoll::test::SmallTraining& training) {
  for (const float weight : training.weights()) {
    uint32_t bits = 0;
    std::memcpy(&bits, &weight, sizeof bits);
    std::printf("%08x\n", bits);
  }
}

// Whether a forked child is refused.
bool child_is_refused(plimsoll::test::SmallTraining& training) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    try {
      training.fit(1);
    } catch (const plimsoll::Error&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run(const char* library) {
  constexpr int kCapacity = 77;
  plimsoll::test::SmallTraining training;
  if (library == nullptr) {
    training.fit(2);
    if (!child_is_refused(training)) return 3;
    training.fit(2);
    print_weights(training);
    return 0;
  }
  const Vendor vendor(library);
  if (!vendor.loaded() || !vendor.set_capacity(kCapacity)) return 4;
  training.fit(2);
  if (!child_is_refused(training)) return 3;
  training.fit(2);
  print_weights(training);
  if (count_vendors() != 2) return 5;
  return vendor.capacity() == kCapacity ? 0 : 6;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host: %s\n", error.what());
    return 2;
  }
}
