/* cc.h - lwIP's port to this compiler and processor. */
#ifndef LWIP_ARCH_CC_H
#define LWIP_ARCH_CC_H

#include <stdio.h>
#include <stdlib.h>

#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(x) abort()
#define LWIP_RAND() ((u32_t)rand())

#endif
