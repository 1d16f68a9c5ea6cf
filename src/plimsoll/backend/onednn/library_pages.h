#pragma once

// Gives back pages of the vendor's library that were needed once.
//
// Loading it runs hundreds of initializers spread over 40 MiB of code, and making primitives walks
// through the code of all kernels that were not chosen: 10 to 20 MiB of file pages that nobody
// reads again. They are clean, so the kernel may have them back at any time; dropping our mapping
// of them takes them out of this process's memory, and what is needed after all comes back from the
// page cache. Code and constants only: nothing that is written is touched.

namespace plimsoll::backend::onednn {

// Takes a few tenths of a millisecond. Does nothing where the library is not a shared object of its
// own.
void drop_library_pages() noexcept;

// An address in the library.
const void* library_code();

}  // namespace plimsoll::backend::onednn
