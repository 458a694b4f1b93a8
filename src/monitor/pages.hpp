#pragma once
// The pages of the dashboard: the files of web/ and the libraries they use, built into the program.

#include "monitor/http_routes.hpp"

namespace collab::monitor {

/// `/` and every file that it loads, 54 kB of libraries included; all from this server, so the Content-Security-Policy
/// of the server holds. A browser keeps them until the program is another one.
void add_pages(HttpRoutes& routes);

}  // namespace collab::monitor
