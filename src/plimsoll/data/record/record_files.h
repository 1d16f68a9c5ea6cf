#pragma once

// Which files TFRecord data are in: one, or the shards of a data set in a folder.
//
// TensorFlow names shards train-00000-of-00008, without an ending; a folder of them, or of files
// that end in .tfrecord, is one data set, in the order of the names. Of several sets in a folder
// one is named by a pattern: train-*. Internal to data.

#include <string>
#include <vector>

namespace plimsoll::data {

// Whether the name ends as a shard's does, .gz aside.
bool is_shard_name(const std::string& path);

// Those in a folder, by name; empty where there are none. Throws kData where a shard is missing, or
// shards lie beside those of another set.
std::vector<std::string> record_files_in(const std::string& folder);

// Whether the path's last part has a star and is no file.
bool is_record_pattern(const std::string& path);

// Those whose names are like the pattern's last part, in which a star stands for anything: for
// digits where any name is like it so. Throws kData as above, and where there are none.
std::vector<std::string> record_files_like(const std::string& pattern);

// What is to be said of one shard that is read alone; empty for the only one, and other files.
std::string note_of_shard(const std::string& path);

}  // namespace plimsoll::data
