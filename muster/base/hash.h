#pragma once
// SHA-256 (FIPS 180-4, by OpenSSL): names and verifies content.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace muster {

using Digest = std::array<std::byte, 32>;

// Bytes in, digest out. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  Digest finish();  // afterwards the object is as new

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest sha256(std::span<const std::byte> bytes);
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace muster
