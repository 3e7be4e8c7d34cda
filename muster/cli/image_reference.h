#pragma once
// Names of container images, as registries and Kubernetes take them:
// https://github.com/distribution/reference (its grammar stands in reference.go). Pure.

#include <string>

namespace muster::cli {

// "muster", "registry.example:5000/team/muster:1.2", "muster@sha256:…": a name of at most 255
// characters, which may begin with a registry's host, then a tag, then a digest.
bool is_image_reference(const std::string& text);

}  // namespace muster::cli
