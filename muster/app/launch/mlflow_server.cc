#include "muster/app/launch/mlflow_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "muster/base/trimmed.h"

namespace muster::app {
namespace {

constexpr std::chrono::seconds kToConnect{5};
constexpr std::chrono::seconds kToAnswer{30};  // a database may be busy

std::string of_variable(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

Result<std::string> token_of_file(const std::string& path, Files& files) {
  const auto text = files.read(path);
  if (!text) return with_context(text.error(), "[mlflow] mlflow.token_file");
  std::string token(trimmed(*text, " \t\r\n"));
  if (!token.empty()) return token;
  return fail(ErrorCode::kInvalid,
              fmt::format("[mlflow] mlflow.token_file: {} is empty; it holds the token that the "
                          "server asks for",
                          path));
}

std::string saying_of(const httplib::Result& answer) {
  switch (answer.error()) {
    case httplib::Error::Connection:
      return "nobody answers there";
    case httplib::Error::ConnectionTimeout:
      return fmt::format("no connection within {} s", kToConnect.count());
    case httplib::Error::Read:
      return fmt::format("the connection broke, or no answer came within {} s", kToAnswer.count());
    case httplib::Error::SSLServerVerification:
      return "its certificate is not one that is trusted here; mlflow.certificate, or "
             "MLFLOW_TRACKING_SERVER_CERT_PATH, names the authority's";
    case httplib::Error::SSLLoadingCerts:
      return "the certificates of mlflow.certificate, or MLFLOW_TRACKING_SERVER_CERT_PATH, cannot "
             "be read";
    default:
      return httplib::to_string(answer.error());
  }
}

// It would again.
bool distrusts(const httplib::Result& answer) {
  return answer.error() == httplib::Error::SSLServerVerification ||
         answer.error() == httplib::Error::SSLLoadingCerts;
}

class HttpMlflowServer final : public observe::MlflowServer {
 public:
  HttpMlflowServer(std::string uri, const std::string& host, std::string folder,
                   const MlflowAccess& access)
      : uri_(std::move(uri)), folder_(std::move(folder)), client_(host) {
    client_.set_connection_timeout(kToConnect);
    client_.set_read_timeout(kToAnswer);
    client_.set_write_timeout(kToAnswer);
    if (!access.token.empty())
      client_.set_bearer_token_auth(access.token);
    else if (!access.user.empty())
      client_.set_basic_auth(access.user, access.password);
    if (!access.certificate.empty()) client_.set_ca_cert_path(access.certificate);
  }

  Result<observe::MlflowAnswer> ask(const observe::MlflowRequest& request) override {
    if (stopped_) return fail(ErrorCode::kUnavailable, fmt::format("[mlflow] {}: stopped", uri_));
    const std::string path = folder_ + request.path;
    const auto answer = request.method == "GET" ? client_.Get(path)
                        : request.method == "PUT"
                            ? client_.Put(path, request.body, request.content_type)
                            : client_.Post(path, request.body, request.content_type);
    if (!answer)
      return fail(distrusts(answer) ? ErrorCode::kInvalid : ErrorCode::kUnavailable,
                  fmt::format("[mlflow] {}: {}", uri_, saying_of(answer)));
    return observe::MlflowAnswer{answer->status, answer->body};
  }

  void stop() noexcept override {
    stopped_ = true;
    client_.stop();
  }

 private:
  const std::string uri_;
  const std::string folder_;  // of the server, below which its interface is
  httplib::Client client_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

Result<MlflowAccess> mlflow_access(const job::MlflowSpec& spec,
                                   const std::map<std::string, std::string>& environment,
                                   Files& files) {
  MlflowAccess access;
  access.certificate = spec.certificate;
  if (access.certificate.empty())
    access.certificate = of_variable(environment, "MLFLOW_TRACKING_SERVER_CERT_PATH");
  if (!access.certificate.empty() && !files.exists(access.certificate))
    return fail(ErrorCode::kNotFound,
                fmt::format("[mlflow] mlflow.certificate, or MLFLOW_TRACKING_SERVER_CERT_PATH: {} "
                            "is not there",
                            access.certificate));
  if (!spec.token_file.empty()) {
    MUSTER_ASSIGN(access.token, token_of_file(spec.token_file, files));
    return access;
  }
  access.token = of_variable(environment, "MLFLOW_TRACKING_TOKEN");
  access.user = of_variable(environment, "MLFLOW_TRACKING_USERNAME");
  access.password = of_variable(environment, "MLFLOW_TRACKING_PASSWORD");
  if (access.user.empty() == access.password.empty()) return access;
  return fail(ErrorCode::kInvalid,
              "[mlflow] MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD belong together, and "
              "one is missing; set both or neither");
}

std::unique_ptr<observe::MlflowServer> open_mlflow_server(const std::string& uri,
                                                          const MlflowAccess& access) {
  const auto folder = uri.find('/', uri.find("://") + 3);
  return std::make_unique<HttpMlflowServer>(
      uri, uri.substr(0, folder), folder == uri.npos ? std::string() : uri.substr(folder), access);
}

}  // namespace muster::app
