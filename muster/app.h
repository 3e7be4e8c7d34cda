#pragma once
// What a program of a user's includes: muster::App (own/app.h).

#include "muster/own/app.h"
