/* address.h: from HOST:PORT to a bound socket. */
#ifndef HF_BROKER_ADDRESS_H
#define HF_BROKER_ADDRESS_H

#include <stddef.h>

/* Bind a TCP socket, non-blocking, to an address that config_address accepts. Resolves
 * names, so it may wait: before the loop turns only. An address of another socket that
 * listens is refused; one that lingers from an earlier process is not.
 * HF_E_IO: `why` says what the system said. */
int address_bind(const char *address, int *fd, char *why, size_t size);

#endif
