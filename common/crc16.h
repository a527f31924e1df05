/*
 * crc16.h - the CRC16 by which a Redis Cluster finds the slot of a key: XMODEM, polynomial 0x1021,
 * from 0, nothing reflected. Plain code.
 */
#ifndef REDISQ_CRC16_H
#define REDISQ_CRC16_H

#include "base.h"

unsigned crc16(const char *bytes, size_t len);

#endif
