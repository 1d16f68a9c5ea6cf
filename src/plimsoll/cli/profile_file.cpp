#include "cli/profile_file.h"

#include "base/file.h"
#include "report/profile_page.h"

namespace plimsoll::cli {

void write_profile(const std::string& path, const report::Profile& profile) {
  if (path.ends_with(".html")) {
    write_text_file(path, report::to_html(profile));
    return;
  }
  const bool trace = path.ends_with(".trace.json");
  write_text_file(path, trace ? report::to_chrome_trace(profile) : report::to_json(profile));
}

}  // namespace plimsoll::cli
