#include "monitor/pages.hpp"

#include "monitor/web_files.hpp"

namespace collab::monitor {

void add_pages(HttpRoutes& routes) {
  for (const WebFile& file : web_files()) {
    routes.pages[std::string(file.path)] = [&file](const HttpRequest&) {
      HttpAnswer answer;
      answer.content_type = file.content_type;
      answer.body = file.bytes;
      answer.etag = file.etag;
      return answer;
    };
  }
}

}  // namespace collab::monitor
