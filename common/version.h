/* The version of this build, from git. */
#pragma once

extern const char co_version[];
/* Of the compiler, as it says: "12.2.0" of gcc. */
extern const char co_compiler[];
/* The compiler's flags, without paths and warnings. */
extern const char co_build_flags[];
