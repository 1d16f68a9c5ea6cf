// A copy of the library under a name of its own, loaded for us alone.

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "backend/onednn/vendor_api.h"
#include "base/error.h"
#include "base/pages/code_pages.h"

namespace plimsoll::backend::onednn {
namespace {

constexpr const char* kName = "libplimsoll_dnnl.so.3";

// Where the binary lies that holds this code: a program, or a library that a host has loaded.
std::string own_folder() {
  Dl_info info = {};
  Dl_info program = {};
  std::string path;
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0) path = info.dli_fname;
  const auto* const headers = reinterpret_cast<const void*>(::getauxval(AT_PHDR));
  if (::dladdr(headers, &program) != 0 && program.dli_fbase == info.dli_fbase) {
    // A program is known to the loader by the name that it was called by.
    std::error_code failed;
    const std::string own = std::filesystem::read_symlink("/proc/self/exe", failed).string();
    if (!failed) path = own;
    if (!path.starts_with('/')) {
      throw Error(ErrorKind::kIo, "expected /proc/self/exe, which tells where " +
                                      std::string(kName) + " lies, found none. Mount /proc.");
    }
  }
  return path.substr(0, path.rfind('/') + 1);
}

// Beside it, where it is installed for programs, or in the Python package whose program this is.
std::string find_copy() {
  const std::string folder = own_folder();
  for (const char* place : {"", "../lib/plimsoll/", "plimsoll/", "../../../"}) {
    const std::string path = folder + place + kName;
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  throw Error(ErrorKind::kIo, "expected " + std::string(kName) + " in " + folder +
                                  ", in ../lib/plimsoll beside it, or in the Python package "
                                  "that it is part of, found none. Install it there.");
}

void* find(void* library, const char* name) {
  if (void* const function = ::dlsym(library, name)) return function;
  throw Error(ErrorKind::kIo, std::string(kName) + ": expected the function " + name +
                                  ", found none. Install the copy that Plimsoll was built with.");
}

VendorApi load() {
  const std::string path = find_copy();
  // Never closed: primitives and threads outlive whoever would do it.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorKind::kIo, ::dlerror());
  const void* const code[] = {find(library, "dnnl_version")};
  cut_code_of(code);
  VendorApi api;
#define PLIMSOLL_FIND(name) api.name = reinterpret_cast<decltype(api.name)>(find(library, #name));
  PLIMSOLL_VENDOR_FUNCTIONS(PLIMSOLL_FIND)
#undef PLIMSOLL_FIND
  return api;
}

}  // namespace

const VendorApi& vendor_api() {
  static const VendorApi api = load();
  return api;
}

}  // namespace plimsoll::backend::onednn
