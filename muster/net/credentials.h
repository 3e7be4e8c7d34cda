#pragma once
// Who belongs to a job: whoever holds its one certificate and key. They are made by the launcher
// for this job alone (ECDSA P-256, self-signed), handed to its workers through their environment,
// and used by both sides of every connection (mutual TLS 1.3). Nobody else is let in.

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::net {

// The environment variable that carries to_text(); never the command line, which all users can
// read.
inline constexpr const char* kCredentialsVariable = "MUSTER_CREDENTIALS";

// An immutable value. Do not log or store it: it holds the private key.
class Credentials {
 public:
  const std::string& certificate_pem() const noexcept { return certificate_; }
  const std::string& private_key_pem() const noexcept { return key_; }

  // Names the job in every frame: the first 64 bits of the certificate's SHA-256.
  std::uint64_t job() const noexcept { return job_; }

 private:
  friend Result<Credentials> parse_credentials(std::string certificate, std::string key);
  Credentials(std::string certificate, std::string key, std::uint64_t job)
      : certificate_(std::move(certificate)), key_(std::move(key)), job_(job) {}
  std::string certificate_;
  std::string key_;
  std::uint64_t job_;
};

// Fresh credentials, valid until `lifetime` after `now`. From when on is nobody's matter: the key
// is as young as the job, and hosts' clocks differ, or are set back.
Result<Credentials> create_credentials(WallTime now,
                                       Duration lifetime = std::chrono::hours(24 * 365));

// From PEM; kInvalid when the texts are no certificate and key, or do not belong together.
Result<Credentials> parse_credentials(std::string certificate_pem, std::string private_key_pem);

// One line of base64, fit for an environment variable, and back.
std::string to_text(const Credentials& credentials);
Result<Credentials> credentials_from_text(std::string_view text);

}  // namespace muster::net
