// private_copy LIBRARY COPY: a copy of a shared library that lives beside the original in one
// process.
//
// One entry of the copy's dynamic section is another: its shared name (by which the loader would
// take one for the other) becomes the mark that its own calls are bound inside of it first,
// whatever else in the process has symbols of the same names. Nothing else differs by a byte.

#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <typename T>
std::span<T> table(std::vector<char>& file, size_t offset, size_t count) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) {
    throw std::runtime_error("expected a whole ELF file");
  }
  return {reinterpret_cast<T*>(file.data() + offset), count};
}

void make_private(std::vector<char>& file) {
  const Elf64_Ehdr& head = table<Elf64_Ehdr>(file, 0, 1)[0];
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) {
    throw std::runtime_error("expected a shared library of 64 bits");
  }
  for (const Elf64_Phdr& segment : table<Elf64_Phdr>(file, head.e_phoff, head.e_phnum)) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const size_t count = segment.p_filesz / sizeof(Elf64_Dyn);
    for (Elf64_Dyn& entry : table<Elf64_Dyn>(file, segment.p_offset, count)) {
      if (entry.d_tag != DT_SONAME) continue;
      entry.d_tag = DT_SYMBOLIC;
      entry.d_un.d_val = 0;
      return;
    }
  }
  throw std::runtime_error("expected a library with a shared name");
}

void copy(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::vector<char> file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  make_private(file);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  out.write(file.data(), static_cast<std::streamsize>(file.size()));
  if (!out.flush()) throw std::runtime_error("cannot be written: " + to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: private_copy LIBRARY COPY\n", stderr);
    return 2;
  }
  try {
    copy(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "private_copy: %s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
