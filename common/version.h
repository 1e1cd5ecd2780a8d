/* The version of this build, from git. */
#pragma once

extern const char co_version[];
