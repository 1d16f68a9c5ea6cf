#pragma once

// The elements of one dataset. Internal to codec; the public face is Hdf5Dataset.

#include <memory>
#include <string>

#include "codec/hdf5/hdf5_object.h"
#include "codec/hdf5/hdf5_reader.h"

namespace plimsoll::codec {

// Checks type, shape, layout and filters; reads no elements. `path` is for messages,
// `folder` for large chunks, once they are decoded (see hdf5_chunks.h).
std::unique_ptr<Hdf5Dataset> open_hdf5_data(std::shared_ptr<const Hdf5Source> source,
                                            const Hdf5Object& object, const std::string& path,
                                            const std::string& folder);

}  // namespace plimsoll::codec
