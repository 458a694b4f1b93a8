#pragma once
// What the HTTP server of a node offers: a table of paths. Pages and interfaces are rows of it and know no HTTP.

#include "monitor/events.hpp"

#include <functional>
#include <map>
#include <string>

namespace collab::monitor {

struct HttpRequest {
  std::string path;                          ///< without the query
  std::map<std::string, std::string> query;  ///< as sent, nothing decoded: our own values are plain words and numbers
};

struct HttpAnswer {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  /// In quotes; names exactly this body. A browser keeps the body and asks by its name next time (304 when it is still
  /// the same). Empty: the body is of this moment, nobody keeps it.
  std::string etag;
};

/// Runs on the node's loop and must not wait. An exception is our bug: it is logged, the client is told so (500).
using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

struct HttpRoutes {
  std::map<std::string, HttpHandler, std::less<>> pages;      ///< GET and HEAD of exactly this path
  std::map<std::string, const Events*, std::less<>> streams;  ///< server-sent events; outlive the server
};

}  // namespace collab::monitor
